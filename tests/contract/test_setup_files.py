"""Setup files: `discovery config sync` and `engine.servers.sync`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import ServerState
from discovery_engine.errors import ConfigurationError
from tests.contract.discovery import Discovery
from tests.engines import Folder, program
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.told import Told

pytestmark = pytest.mark.anyio

TOKEN = "correct horse battery staple"


@pytest.fixture
def told(folder: Folder) -> Told:
    return Told.beside(folder.path, make_definition("mail", "Send a mail."))


def written(folder: Path, content: Any, name: str = "setup.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def started(told: Told, **more: Any) -> dict[str, Any]:
    command, *args = told.command
    return {"name": "post", "command": command, "args": args, **more}


@pytest.mark.requirement("OWN-40")
async def test_each_server_is_registered_once_whatever_is_wrong_with_others(
    folder: Folder, told: Told
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
    path = written(folder.path, [started(told, tags=["office"]), *broken, same, off])
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
async def test_secrets_are_stored_and_variables_referred_to(folder: Folder, told: Told) -> None:
    secrets = {"MAIL_KEY": TOKEN, "OTHER": "$OTHER_VARIABLE", "THIRD": "${X:-y}"}
    web = {"name": "web", "url": "https://x.example/mcp", "transport": "streamable-http"}
    content = {
        "servers": [
            started(told, env={"HOME": "$HOME", "PRICE": "5$"}, secrets=secrets),
            {**web, "secrets": {"API_KEY": f"Bearer {TOKEN}", "X-Team": TOKEN}},
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
        assert engine.secrets.get("post/MAIL_KEY") == TOKEN
        assert engine.secrets.get("web/API_KEY") == TOKEN
    path.unlink()
    kept = [one.read_bytes() for one in folder.path.rglob("*") if one.is_file()]
    assert not any(TOKEN.encode() in content for content in kept)


@pytest.mark.requirement("OWN-40")
async def test_a_local_file_beside_it_adds_keys_and_servers(folder: Folder) -> None:
    base = {"a": {"command": "x", "env": {"A": "1", "B": "2"}}, "b": {"command": "y"}}
    path = written(folder.path, {"mcpServers": base})
    local = [{"name": "a", "env": {"B": "3"}}, {"name": "c", "url": "https://c.example"}]
    written(folder.path, local, "setup.local.json")

    folder.write()
    async with folder.open() as engine:
        await engine.servers.sync(path)
        records = {one.name: one.record for one in await engine.servers.list()}

    assert {name: record and record.entry for name, record in records.items()} == {
        "a": {"command": "x", "env": {"A": "1", "B": "3"}},
        "b": {"command": "y"},
        "c": {"url": "https://c.example"},
    }


@pytest.mark.requirement("OWN-40")
async def test_the_file_of_the_environment_is_meant_without_a_name(
    folder: Folder, told: Told
) -> None:
    folder.write()
    path = written(folder.path, [started(told)])
    async with folder.open(environ={"PATH": "/bin"}) as engine:
        with pytest.raises(ConfigurationError, match="no setup file is named"):
            await engine.servers.sync()
        with pytest.raises(ConfigurationError, match="no such file"):
            await engine.servers.sync(folder.path / "absent.json")
    environ = {"PATH": "/bin", "DISCOVERY_SETUP_FILE": str(path)}
    async with folder.open(environ=environ) as engine:
        assert (await engine.servers.sync()).registered == ("post",)
        assert engine.view.server("post").state is not ServerState.UNTRUSTED


@pytest.mark.requirement("OWN-40")
def test_the_command_shows_asks_and_reports(
    tmp_path: Path, forked: Preloaded, folder: Folder, told: Told
) -> None:
    folder.write()
    home = Discovery(tmp_path, forked)
    content: list[Any] = [
        started(told, secrets={"MAIL_KEY": TOKEN}),
        {"name": "a;b", "command": "x"},
    ]
    path = str(written(tmp_path, content))

    shown, unasked = home("config", "sync", path, "--dry-run"), home("config", "sync", path)
    done, again = (
        home("config", "sync", path, "--yes", "--json"),
        home("config", "sync", path, "--yes"),
    )

    assert f"{' '.join(told.command)}" in shown.out
    assert "post/MAIL_KEY is kept encrypted" in shown.err
    assert TOKEN not in shown.out + shown.err + done.out
    assert (shown.code, unasked.code, done.code, again.code) == (2, 2, 2, 2)
    assert (done.json["registered"], done.json["activated"]) == (["post"], ["post"])
    assert (done.json["written"], done.json["skipped"]) == (True, [])
    assert [one["name"] for one in done.json["errors"]] == ["a;b"]
    assert "nothing is to be registered" in again.err
    assert home("execute", "post:mail").code == 0
