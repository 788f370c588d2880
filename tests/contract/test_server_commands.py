"""`discovery add`, `remove`, `enable`, `disable` and the list of servers: specs/servers.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.errors import ConfigurationError
from tests.contract.discovery import Discovery
from tests.contract.test_health import gateway
from tests.engines import Folder, program
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.rows import rows
from tests.servers.programs import eventually
from tests.told import Told

pytestmark = pytest.mark.anyio

CONFIG = """\
# my servers
servers:
  a:              # the first
    command: 'true'
    enabled: false

  # the second
  b: {command: 'false', tags: [x, y]}
log: {level: info}   # end
"""
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ456789"


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Discovery:
    (tmp_path / "discovery.yaml").write_text(CONFIG)
    return Discovery(tmp_path, forked)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told.beside(tmp_path, make_definition("mail", "Send a mail."))


def config(home: Discovery) -> str:
    return (home.home / "discovery.yaml").read_text()


def listed(home: Discovery, *words: str) -> list[str]:
    return [one["name"] for one in home("list", "--json", *words).json["servers"]]


def server(home: Discovery, name: str) -> dict[str, Any]:
    shown = home("list", "--json").json["servers"]
    return next(one for one in shown if one["name"] == name)


@pytest.mark.requirement("OWN-15")
def test_a_server_is_added_to_the_file_with_everything_else_as_it_was(
    home: Discovery, told: Told
) -> None:
    done = home("add", "post", "--yes", "--tag", "office", "--", *told.command)

    assert done.code == 0, done.err
    assert "+  post:" in done.out
    assert f"added post to {home.home / 'discovery.yaml'}" in done.err
    added = "".join(f"{line[1:]}\n" for line in done.out.splitlines() if line.startswith("+  "))
    assert config(home) == CONFIG.replace("log:", f"{added}log:")
    assert (home.home / "discovery.yaml.bak").read_text() == CONFIG
    assert home("execute", "post:mail").code == 0
    assert home("remove", "post", "--yes").code == 0
    assert config(home) == CONFIG


@pytest.mark.requirement("OWN-31")
def test_entries_have_all_that_the_options_give(home: Discovery) -> None:
    options = ["--env", "HOME", "--env", "LEVEL=a=b", "--cwd", "/tmp", "--off", "--to", "registry"]
    made = home("add", "one", "--yes", *options, "--", "prog", "-y", "--url", "x")
    headers = ["--header", "X-Team: red", "--header", "Authorization: Bearer ${T}"]
    web = ["--url", "https://x.example/mcp", "--transport", "sse", "--description", "Of x"]
    reached = home("add", "web", "--yes", *web, *headers)

    assert (made.code, reached.code) == (0, 0)
    shown = home("config", "show", "--json").json["configuration"]["servers"]
    assert shown["one"] == {
        "command": "prog",
        "args": ["-y", "--url", "x"],
        "env": {"HOME": "${HOME}", "LEVEL": "••••"},
        "cwd": "/tmp",
        "enabled": False,
        "source": "registry",
    }
    assert shown["web"] == {
        "url": "https://x.example/mcp",
        "transport": "sse",
        "headers": {"X-Team": "••••", "Authorization": "••••${T}"},
        "description": "Of x",
    }


@pytest.mark.requirement("OWN-31")
@rows(
    ("words", "message"),
    [
        (["x"], "either"),
        (["x", "--url", "https://x.example", "--", "prog"], "either"),
        (["x", "--header", "A: b", "--", "prog"], "--header needs --url"),
        (["x", "--url", "https://x.example", "--env", "A"], "--env needs a program"),
        (["x", "--url", "https://x.example", "--header", "nothing"], "has no colon"),
        (["x", "--url", "ftp://x.example"], "is no address"),
        (["x;reboot", "--", "prog"], "cannot be used for a server"),
        (["g\u0456thub", "--", "prog"], "'\u0456' is U+0456, and no letter from a to z"),
        (["x", "prog", "-y"], "put `--` before the command of the server"),
        (["b", "--", "prog"], "there is a server 'b' already"),
        (["c", "--", "prog", "--token", TOKEN], "its arguments carry a secret"),
    ],
)
def test_what_cannot_be_added_is_refused_with_the_reason(
    home: Discovery, words: list[str], message: str
) -> None:
    done = home("add", "--yes", *words)

    assert done.code == 2
    assert message in done.err
    assert TOKEN not in done.err
    assert config(home) == CONFIG


@pytest.mark.requirement("OWN-32")
def test_the_list_shows_what_is_wanted_and_what_is_observed(home: Discovery, told: Told) -> None:
    home("add", "post", "--to", "registry", "--yes", "--tag", "office", "--", *told.command)
    home("disable", "b", "--to", "registry")

    table = home("servers", "--long").out.splitlines()
    heads = table[0].split()
    rows = {line.split()[1]: line.split() for line in table[1:]}

    assert " ".join(heads) == "server wanted state tools package source tags added changed"
    assert rows["a"][2:4] == ["off", "disabled"]
    assert rows["b"][2:4] == ["off", "disabled"]
    assert rows["post"][2:4] == ["on", "ready"]
    assert rows["post"][6:9] == ["-", "registry", "office"]
    assert rows["post"][9] == rows["post"][10] != "-"
    assert "it is switched off" in home("list", "--status").out
    shown = server(home, "post")
    assert (shown["wanted"], shown["source"], shown["package"]) == (True, "registry", "")
    assert shown["created_at"] == shown["updated_at"] > 0
    assert server(home, "b")["wanted"] is False


@pytest.mark.requirement("OWN-19")
def test_the_list_is_searched_and_restricted(home: Discovery) -> None:
    home("add", "clock", "--to", "registry", "--yes", "--tag", "Time", "--off", "--", "x")

    assert listed(home, "clock") == ["clock"]
    assert listed(home, "clok") == ["clock"]
    assert listed(home, "--tag", "time") == ["clock"]
    assert listed(home, "--tag", "x", "--tag", "time") == ["b", "clock"]
    assert listed(home, "--source", "registry") == ["clock"]
    assert listed(home, "--source", "discovery.yaml") == ["a", "b"]
    assert listed(home, "--installed") == []
    none = home("servers", "zebra")
    assert none.code == 2
    assert "none of 3 servers fits" in none.err


@pytest.mark.requirement("OWN-20")
@pytest.mark.anyio
async def test_a_running_gateway_follows_what_the_commands_change(
    home: Discovery, told: Told
) -> None:
    with gateway(home) as opened:

        def finds(tool: str) -> Callable[[], bool]:
            asked = {"name": "search_tools", "arguments": {"query": "send a mail"}}
            return lambda: tool in json.dumps(opened.ask("tools/call", asked))

        for to in ("registry", "file"):
            home("add", "post", "--to", to, "--yes", "--", *told.command)
            await eventually(finds("post:mail"))
            assert opened.call("post:mail")["result"].get("isError") in (None, False)
            home("disable", "post")
            await eventually(lambda: not finds("post:mail")())
            home("enable", "post")
            await eventually(finds("post:mail"))
            home("remove", "post", "--yes")
            await eventually(lambda: not finds("post:mail")())


RULES = """
toolRules:
  - {pattern: "boom", enabled: false}
  - {pattern: "{echo,boom,slow}", tags: [text]}
  - {pattern: "{echo,delete*}", tags: [owner]}
"""
OFF: Mapping[str, object] = {"command": "false", "enabled": False}


def names(discovery: Discovery, *words: str) -> list[str]:
    tools = discovery("tools", *words, "--json").json["tools"]
    return [f"{one['server']}:{one['tool']}" for one in tools]


def found(discovery: Discovery, *words: str) -> list[str]:
    results = discovery("search", "echo slow delete all", *words, "--json").json["results"]
    return sorted(f"{one['server']}:{one['tool']}" for one in results)


@pytest.mark.requirement("CLI-86")
def test_tools_of_all_servers_are_chosen_by_all_tags_or_any(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(rules=RULES, off=OFF)
    discovery("refresh")
    both = ("--tag", "text", "--tag", "owner")
    shown = discovery("tools", "--tag", "text")

    assert names(discovery) == ["demo:delete_all", "demo:echo", "demo:slow"]
    assert names(discovery, *both) == ["demo:echo"]
    assert names(discovery, *both, "--any-tag") == ["demo:delete_all", "demo:echo", "demo:slow"]
    assert found(discovery, *both) == ["demo:echo"]
    assert found(discovery, *both, "--any-tag") == ["demo:delete_all", "demo:echo", "demo:slow"]
    assert names(discovery, "demo", "--tag", "text", "--all") == [
        "demo:boom",
        "demo:echo",
        "demo:slow",
    ]
    assert names(discovery, "--tag", "unknown") == []
    assert "demo:echo" in shown.out
    assert "2 tools; 1 disabled (--all shows them)" in shown.err
    assert discovery("tools", "--max-tokens", "100").code == 2


PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def mail_server(folder: Folder) -> Told:
    return Told.beside(folder.path, make_definition("mail", "Send a mail."))


def written(folder: Path, content: Any, name: str = "setup.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def started(mail_server: Told, **more: Any) -> dict[str, Any]:
    command, *args = mail_server.command
    return {"name": "post", "command": command, "args": args, **more}


@pytest.mark.requirement("OWN-40")
async def test_each_server_is_registered_once_whatever_is_wrong_with_others(
    folder: Folder, mail_server: Told
) -> None:
    folder.write(program("mine", "true", "x"))
    broken: list[Any] = [
        {"name": "a b", "command": "true"},
        {"name": "none"},
        {"name": "odd", "command": "true", "colour": "red"},
        {"name": "flag", "command": "true", "auto_activate": "yes"},
        {"name": "secret", "command": "true", "secrets": ["x"]},
        {"name": "lines", "command": "true", "secrets": {"KEY": "a\nb"}},
        {"name": "key", "command": "true", "secrets": {"a key": "b"}},
        {"command": "nameless"},
        "text",
        None,
        {"name": "post", "command": "another"},
    ]
    same = {"name": "same", "command": "true", "args": ["x"]}
    off = {"name": "off", "command": "false", "auto_activate": False}
    path = written(folder.path, [started(mail_server, tags=["office"]), *broken, same, off])
    async with folder.open() as engine:
        report = await engine.servers.sync(path)

        assert report.registered == ("post", "off")
        assert report.activated == ("post",)
        assert [one.name for one in report.skipped] == ["same"]
        wrong = ("a b", "none", "odd", "flag", "secret", "lines", "key", "post")
        nameless = ("entry 9", "entry 10", "entry 11")
        assert {one.name for one in report.errors} == {*wrong, *nameless}
        assert len(report.errors) == len(broken)
        await engine.refresh()
        assert not (await engine.execute("post", "mail", {})).get("isError")
        post, other = await engine.servers.get("post"), await engine.servers.get("off")
        assert post.record
        assert (post.record.source, post.tags, post.is_wanted) == ("setup", ("office",), True)
        assert not other.is_wanted

        again = await engine.servers.sync(path)

        assert again.registered == again.activated == ()
        assert {one.name for one in again.skipped} == {"post", "off", "same"}
        assert (await engine.servers.get("post")).updated_at == post.updated_at


@pytest.mark.requirement("OWN-40")
async def test_secrets_are_stored_and_variables_referred_to(
    folder: Folder, mail_server: Told
) -> None:
    secrets = {"MAIL_KEY": PASSPHRASE, "OTHER": "$OTHER_VARIABLE", "THIRD": "${X:-y}"}
    web = {"name": "web", "url": "https://x.example/mcp", "transport": "streamable-http"}
    content = {
        "servers": [
            started(mail_server, env={"HOME": "$HOME", "PRICE": "5$"}, secrets=secrets),
            {**web, "secrets": {"API_KEY": f"Bearer {PASSPHRASE}", "X-Team": PASSPHRASE}},
            {**web, "name": "own", "url": "https://y.example", "secrets": {"AUTHORIZATION": "$T"}},
        ]
    }
    path = written(folder.path, content, "setup.jsonc")
    folder.write()
    async with folder.open() as engine:
        report = await engine.servers.sync(path)
        assert report.errors == ()
        entries = [(await engine.servers.get(name)).record for name in ("post", "web", "own")]
        post, reached, own = (record.entry for record in entries if record)

        assert post["env"] == {
            "HOME": "${HOME}",
            "PRICE": "5$",
            "MAIL_KEY": "${secret:post/MAIL_KEY}",
            "OTHER": "${OTHER_VARIABLE}",
            "THIRD": "${X:-y}",
        }
        assert reached["transport"] == "http"
        assert reached["headers"] == {
            "Authorization": "Bearer ${secret:web/API_KEY}",
            "X-Team": "${secret:web/X-Team}",
        }
        assert own["headers"] == {"Authorization": "${T}"}
        assert engine.secrets.get("post/MAIL_KEY") == PASSPHRASE
        assert engine.secrets.get("web/API_KEY") == PASSPHRASE
    path.unlink()
    kept = [one.read_bytes() for one in folder.path.rglob("*") if one.is_file()]
    assert not any(PASSPHRASE.encode() in content for content in kept)


@pytest.mark.requirement("OWN-40")
async def test_the_local_file_beside_a_setup_file_adds_keys_and_servers(folder: Folder) -> None:
    post = {"command": "true", "args": ["x"], "env": {"A": "1", "B": "2"}}
    path = written(folder.path, {"post": post, "odd": "text"})
    local = {
        "post": {"env": {"B": "3"}, "args": ["y"]},
        "odd": {"command": "odd"},
        "new": {"url": "https://x.example"},
    }
    written(folder.path, local, "setup.local.json")
    folder.write()
    async with folder.open() as engine:
        report = await engine.servers.sync(path)
        servers = [await engine.servers.get(name) for name in ("post", "odd", "new")]

    assert (report.registered, report.errors) == (("post", "odd", "new"), ())
    assert [server.record and server.record.entry for server in servers] == [
        {"command": "true", "args": ["y"], "env": {"A": "1", "B": "3"}},
        {"command": "odd"},
        {"url": "https://x.example"},
    ]


@pytest.mark.requirement("OWN-40")
@rows(
    ("name", "content", "message"),
    [
        ("none.json", None, "there is no such file"),
        ("folder.json", "", "cannot be read"),
        ("odd.json", '[\n{"name": "a",,}]', "line 2"),
        ("odd.yaml", "servers: {a: {command: b}}", "a setup file is JSON"),
        ("zero\0.json", None, "no file can have that name"),
    ],
)
async def test_a_setup_file_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    folder = Folder(tmp_path)
    folder.write()
    if content:
        (tmp_path / name).write_text(content)
    elif content is not None:
        (tmp_path / name).mkdir()
    async with folder.open() as engine:
        with pytest.raises(ConfigurationError, match=message):
            await engine.servers.sync(tmp_path / name)


@pytest.mark.requirement("OWN-40")
def test_the_command_shows_asks_and_reports(
    tmp_path: Path, forked: Preloaded, folder: Folder, mail_server: Told
) -> None:
    folder.write()
    home = Discovery(tmp_path, forked)
    content: list[Any] = [
        started(mail_server, secrets={"MAIL_KEY": PASSPHRASE}),
        {"name": "a;b", "command": "x"},
    ]
    path = str(written(tmp_path, content))

    shown, unasked = home("config", "sync", path, "--dry-run"), home("config", "sync", path)
    done, again = (
        home("config", "sync", path, "--yes", "--json"),
        home("config", "sync", path, "--yes"),
    )

    assert f"{' '.join(mail_server.command)}" in shown.out
    assert "post/MAIL_KEY is kept encrypted" in shown.err
    assert PASSPHRASE not in shown.out + shown.err + done.out
    assert (shown.code, unasked.code, done.code, again.code) == (2, 2, 2, 2)
    assert (done.json["registered"], done.json["activated"]) == (["post"], ["post"])
    assert (done.json["written"], done.json["skipped"]) == (True, [])
    assert [one["name"] for one in done.json["errors"]] == ["a;b"]
    assert "nothing to register" in again.err
    assert home("execute", "post:mail").code == 0
