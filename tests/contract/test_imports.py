"""Servers of a file that is named, as `discovery config import` and `discovery init` take them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.discovery import Discovery
from tests.forked import Finished, Preloaded


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


def imported(discovery: Discovery, files: Mapping[str, str], *words: str) -> Finished:
    """What comes of importing these files in one run."""
    origins: list[str] = []
    for name, text in files.items():
        path = discovery.home / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        origins += ["--from", str(path)]
    return discovery("config", "import", *origins, "--yes", *words)


def written(discovery: Discovery) -> Any:
    path = discovery.home / "discovery.yaml"
    return yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}


def in_json(servers: Any, **others: Any) -> str:
    return json.dumps({"mcpServers": servers, **others})


CODEX = """
[mcp_servers.codex-{0}]
url = "https://{0}.example.com/mcp"
bearer_token_env_var = "API_TOKEN"
env_http_headers = {{ "X-Team" = "TEAM" }}
enabled_tools = ["a", "b"]
disabled_tools = ["b"]
tool_timeout_sec = 7
"""
AS_CODEX = {
    "url": "https://{0}.example.com/mcp",
    "headers": {"Authorization": "Bearer ${API_TOKEN}", "X-Team": "${TEAM}"},
    "timeouts": {"call": 7.0},
}
GEMINI = in_json(
    {
        "gemini-{0}": {"command": "g-{0}", "env": {"K": "$G_KEY"}, "excludeTools": ["wipe(x)"]},
        "gemini-off-{0}": {"command": "g-off-{0}"},
    },
    mcp={"excluded": ["gemini-off-{0}"]},
)
OPENCODE = json.dumps(
    {
        "mcp": {
            "opencode-{0}": {
                "type": "local",
                "command": ["o-{0}", "x"],
                "environment": {"K": "{env:O_KEY}"},
            }
        },
        "tools": {"opencode-{0}_delete*": False},
    }
)
GOOSE = """
extensions:
  goose-{0}: {{type: stdio, cmd: gs-{0}, args: [], env_keys: [GITHUB_TOKEN], available_tools: [r]}}
  goose-own-{0}: {{type: builtin}}
"""
CHERRY = in_json(
    {
        "cherry-{0}": {
            "type": "streamableHttp",
            "baseUrl": "https://ch-{0}.example.com/mcp",
            "isActive": False,
        }
    }
)
MCPPROXY = in_json([{"name": "proxied-{0}", "command": "pr-{0}", "quarantined": True}])
PLAIN = in_json(
    {
        "plain-{0}": {"command": "pl-{0}", "enabled_tools": ["only"], "env_vars": ["PASSED"]},
        "map-{0}": {"command": "map-{0}", "tools": {"kept": True, "gone": False}},
    }
)


def filled(value: Any, number: int) -> Any:
    """A value with the number of its file in place of `{0}`."""
    return json.loads(json.dumps(value).replace("{0}", str(number)))


def deny(server: str, *patterns: str) -> Any:
    pattern = list(patterns) if len(patterns) > 1 else patterns[0]
    return {"pattern": pattern, "server": server, "enabled": False}


ROWS: dict[str, tuple[list[str], str, dict[str, Any], list[Any]]] = {
    # client: its own file and one of another name, the text, entries, rules
    "codex": (
        [".codex/config.toml", "codex-copy.toml"],
        CODEX,
        {"codex-{0}": AS_CODEX},
        [deny("codex-{0}", "b"), deny("codex-{0}", "!a", "!b")],
    ),
    "gemini": (
        [".gemini/settings.json", "gemini-copy.json"],
        GEMINI,
        {
            "gemini-{0}": {"command": "g-{0}", "env": {"K": "${G_KEY}"}},
            "gemini-off-{0}": {"command": "g-off-{0}", "enabled": False},
        },
        [deny("gemini-{0}", "wipe")],
    ),
    "opencode": (
        ["opencode.json", "oc-copy.json"],
        OPENCODE,
        {"opencode-{0}": {"command": "o-{0}", "args": ["x"], "env": {"K": "${O_KEY}"}}},
        [deny("opencode-{0}", "delete*")],
    ),
    "goose": (
        ["goose/config.yaml", "gs-copy.yaml"],
        GOOSE,
        {"goose-{0}": {"command": "gs-{0}", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}},
        [deny("goose-{0}", "!r")],
    ),
    "cherry-studio": (
        ["ch-copy.json"],
        CHERRY,
        {
            "cherry-{0}": {
                "url": "https://ch-{0}.example.com/mcp",
                "transport": "http",
                "enabled": False,
            }
        },
        [],
    ),
    "mcpproxy": (
        [".mcpproxy/mcp_config.json", "pr-copy.json"],
        MCPPROXY,
        {"proxied-{0}": {"command": "pr-{0}", "enabled": False}},
        [],
    ),
    "no client": (
        ["mcp.json"],
        PLAIN,
        {
            "plain-{0}": {"command": "pl-{0}", "env": {"PASSED": "${PASSED}"}},
            "map-{0}": {"command": "map-{0}"},
        },
        [deny("plain-{0}", "!only"), deny("map-{0}", "gone")],
    ),
}


@pytest.mark.requirement("SRC-7", "SRC-13")
def test_a_file_that_is_named_restricts_and_refers_as_its_client_reads_it(
    discovery: Discovery,
) -> None:
    files: dict[str, str] = {}
    expected: dict[str, Any] = {}
    rules: list[Any] = []
    for paths, text, entries, denied in ROWS.values():
        for path in paths:
            number = len(files)
            is_format = text in (CODEX, GOOSE)
            files[f"{number}/{path}"] = (
                text.format(number) if is_format else text.replace("{0}", str(number))
            )
            expected |= filled(entries, number)
            rules += filled(denied, number)

    done = imported(discovery, files)
    document = written(discovery)
    wrong = {
        name: (document["servers"].get(name), entry)
        for name, entry in expected.items()
        if document["servers"].get(name) != entry
    }

    assert done.code == 0, done.err
    assert not wrong
    assert [rule for rule in rules if rule not in document["toolRules"]] == []
    assert [rule for rule in document["toolRules"] if rule not in rules] == []
    assert document["servers"].keys() == expected.keys()


@pytest.mark.requirement("SRC-7")
def test_a_file_is_read_as_that_of_the_client_before_its_path(discovery: Discovery) -> None:
    path = discovery.home / "odd.json"
    path.write_text(in_json({"a": {"command": "a", "timeout": 3000, "excludeTools": ["b"]}}))

    as_gemini = discovery("config", "import", "--from", f"gemini-cli:{path}", "--yes")
    as_cursor = discovery("init", "--from", f"cursor:{path}", "--yes", "--force", "--json").json

    assert as_gemini.code == 0
    assert as_cursor["sources"] == ["cursor"]
    assert "type: cursor" in as_cursor["text"]
    assert (
        "there is no file 'gone.json'"
        in discovery("config", "import", "--from", "zed:gone.json").err
    )


COPIED = [
    '"mcpServers": {"s": {"command": "x", "args": ["b"]}}',
    '"mcpServers": {"s": {"command": "x", "args": ["b"]}},',
    '"mcpServers": {"s": {"command": "x", "args": ["b"]}}\n}',
    '"s": {"command": "x", "args": ["b"]}',
    'Add:\n```json\n{"mcpServers": {"s": {"command": "x", "args": ["b"]}}}\n```\nDone.',
    "{“mcpServers”: {“s”: {“command”: “x”, “args”: [“b”]}}}",
    "“s”: {“command”: “x”, “args”: [“b”]}",
]
PATHS = r'{"mcpServers": {"s": {"command": "C:\Program Files\npx.cmd", "args": ["C:\temp\x"]}}}'
UNUSABLE = {
    # what is in the file: what is said of it
    '{"mcpServers": {"s": {"command": "x"': "a whole block is",
    '```\n"a": {}\n```\n```\n"b": {}\n```': "several blocks between lines of ```",
    '{"command": "npx", "args": ["x"]}': "one entry without the name of a server",
    '{"name": "io.github.acme/files", "version": "1", "packages": []}': (
        "`discovery marketplace install io.github.acme/files`"
    ),
    '{"manifest_version": "0.2", "name": "x", "server": {"type": "node"}}': (
        "the manifest of a bundle (MCPB)"
    ),
    '{"mcpServers": {"x": {"type": "http", "host": "example.com"}}}': "it has no url",
}


@pytest.mark.requirement("SRC-7")
def test_text_that_was_copied_from_a_page_is_read_where_it_has_one_reading(
    discovery: Discovery,
) -> None:
    texts = {f"{n}.json": text.replace("x", f"x{n}") for n, text in enumerate(COPIED)}

    done = imported(discovery, {**texts, "paths.json": PATHS}, "--dry-run", "--json")

    entries = [one["entry"] for one in done.json["servers"]]
    assert [[entry["command"], *entry["args"]] for entry in entries] == [
        *([f"x{n}", "b"] for n in range(len(COPIED))),
        [r"C:\Program Files\npx.cmd", r"C:\temp\x"],
    ]


@pytest.mark.requirement("SRC-7", "CLI-21")
def test_a_file_of_which_nothing_can_be_used_is_a_problem_with_a_next_step(
    discovery: Discovery,
) -> None:
    done = imported(discovery, {f"{n}.json": text for n, text in enumerate(UNUSABLE)})

    assert done.code == 2
    assert [words for words in UNUSABLE.values() if words not in done.out + done.err] == []
    assert written(discovery) == {}


ORDINARY = {
    "docker": ["docker", "run", "-i", "-e", "LOG_MODE=strict", "-e", "MCP_TRANSPORT=stdio", "img"],
    "flags": ["docker", "run", "--env=NODE_ENV=production", "-e", "BASE_URL=https://x.example/v4"],
    "env": ["env", "PYTHONUNBUFFERED=1", "python3", "server.py"],
    "header": ["npx", "mcp-remote", "https://x.example/mcp?region=eu", "-H", "X-Team: blue"],
    "passed": ["npx", "mcp-remote", "https://x.example", "--header", "Authorization:${AUTH}"],
    "files": ["x", "GOOGLE_APPLICATION_CREDENTIALS=/home/me/c.json", "--auth=none"],
    "git": ["uvx", "--from", "git+ssh://git@github.com/acme/tools@v1.2", "tools"],
    "image": ["docker", "run", f"IMAGE=ghcr.io/a/b@sha256:{'a1' * 32}", f"c@sha256:{'b2' * 32}"],
    "settings": ["x", "MODEL=gpt-4o-mini-2024-07-18", "TOOLS=a1,b2,c3,d4,e5", "MAX_TOKENS=4096"],
    "json": ["x", '{"logLevel": "debug"}'],
    "defaults": ["x", "--port", "${PORT:-8080}", "http://localhost:${PORT:-8723}/mcp"],
    "literal": ["x", "a${/}b", "${process.env.X}", "http://localhost:${port:8723}/mcp"],
}
SECRET = {
    "named": ["x", "-e", "GITHUB_TOKEN=abc"],
    "attached": ["x", "-eAPI_TOKEN=abcd"],
    "password": ["x", "--env=DB_PASSWORD=hunter2"],
    "form": ["x", "-e", "FOO=s3Cr3tK9xQ"],
    "key": ["x", "ghp_0123456789abcdef"],
    "login": ["x", "DATABASE_URL=postgres://app:geheim@db.example/x"],
    "settings": ["x", "--dsn", "host=h password=geheim"],
    "bearer": ["x", "--header", "Authorization: Bearer geheim"],
    "default": ["x", "--token", "${TOKEN:-geheim}"],
    "json": ["x", '{"apiKey": "geheim"}'],
    "query": ["x", "https://x.example/mcp?key=geheim"],
}


@pytest.mark.requirement("SEC-20")
def test_only_what_looks_like_a_secret_keeps_arguments_out(discovery: Discovery) -> None:
    entries = {
        f"{kind}-{name}": {"command": words[0], "args": words[1:]}
        for kind, rows in (("plain", ORDINARY), ("secret", SECRET))
        for name, words in rows.items()
    }

    done = imported(discovery, {"mcp.json": in_json(entries)}, "--secrets", "keep")
    servers = written(discovery)["servers"]

    assert [name for name in servers if name.startswith("secret-")] == []
    wrong = {
        name: (servers.get(f"plain-{name}"), done.out)
        for name, words in ORDINARY.items()
        if name != "literal"
        and servers.get(f"plain-{name}") != {"command": words[0], "args": words[1:]}
    }
    assert not wrong
    assert servers["plain-literal"]["args"] == [
        "a$${/}b",
        "$${process.env.X}",
        "http://localhost:$${port:8723}/mcp",
    ]
    assert "geheim" not in (discovery.home / "discovery.yaml").read_text()


@pytest.mark.requirement("SRC-10")
def test_text_that_stays_literal_does_not_read_as_a_reference(discovery: Discovery) -> None:
    entry = {"command": "x", "args": ["${/}", "${PORT:8723}"], "url": "http://h:${PORT:1}/mcp"}
    del entry["url"]
    files = {
        ".cursor/mcp.json": in_json({"a": entry}),
        "agent.yaml": "mcp: {servers: {b: {url: 'http://localhost:${PORT:8723}/mcp'}}}",
    }

    imported(discovery, files)

    shown = discovery("config", "show", "--json").json["configuration"]["servers"]
    assert shown["a"]["args"] == ["/", "$${PORT:8723}"]
    assert written(discovery)["servers"]["b"]["url"] == "http://localhost:${PORT:-8723}/mcp"


@pytest.mark.requirement("CFG-35", "RUL-40")
def test_a_tool_must_be_allowed_by_every_client_that_has_the_server(discovery: Discovery) -> None:
    discovery.configure()
    document = written(discovery)
    demo = {key: document["servers"]["demo"][key] for key in ("command", "args", "env")}
    codex = ["[mcp_servers.demo]", f"command = {json.dumps(demo['command'])}"]
    codex += [f"args = {json.dumps(demo['args'])}", 'env_vars = ["STARTS"]']
    codex += ['enabled_tools = ["echo", "boom", "slow"]']
    files = {
        ".codex/config.toml": "\n".join(codex),
        ".gemini/settings.json": in_json({"demo": {**demo, "excludeTools": ["boom"]}}),
        ".kiro/settings/mcp.json": in_json({"again": {**demo, "disabledTools": ["slow"]}}),
    }
    for name, text in files.items():
        path = discovery.home / name
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    (discovery.home / "discovery.yaml").write_text(
        "sources: [{type: codex}, {type: gemini-cli}, {type: kiro}]"
    )

    done = discovery("refresh")
    assert done.code == 0, done.err + done.out
    shown = discovery("tools", "demo", "--all").out
    why = discovery("why", "demo", "boom").out

    assert [line.split(maxsplit=2)[1:] for line in shown.splitlines()] == [
        ["boom()", "disabled: Gemini CLI excludes boom"],
        ["delete_all()", "disabled: Codex allows only echo, boom, slow"],
        ["slow()", "disabled: Kiro excludes slow"],
    ]
    assert f"Gemini CLI excludes boom ({discovery.home}/.gemini/settings.json)" in why

    paths = [str(discovery.home / name) for name in files]
    origins = [word for path in paths for word in ("--from", path)]
    (discovery.home / "discovery.yaml").write_text("servers: {}\n")
    discovery("config", "import", *origins, "--yes")
    assert written(discovery)["toolRules"] == [
        deny("demo", "!echo", "!boom", "!slow"),
        deny("demo", "boom"),
        deny("demo", "slow"),
    ]


OWN = [
    "discovery --config /a/discovery.yaml serve",
    "/opt/venv/bin/discovery serve --stdio",
    r"C:\Scripts\discovery.exe serve",
    "mcp-discovery-engine serve",
    "uvx mcp-discovery-engine@1.2 serve",
    "uvx --from mcp-discovery-engine[postgres]==1.2 discovery serve",
    "uvx --from=git+https://example.com/acme/mcp-discovery-engine discovery serve",
    "uv --directory /src run discovery serve",
    "uv run -m discovery_cli serve",
    "pipx run --spec mcp-discovery-engine discovery serve",
    "/usr/bin/python3.11 -m discovery_cli --config x serve",
    "py -3 -m discovery_cli serve",
    "python3 /opt/venv/bin/discovery serve",
    "env PATH=/bin discovery serve",
    "sh -c 'exec discovery --config x serve'",
    "bash -lc 'cd /x && discovery serve'",
    "cmd /c discovery serve",
    "cmd.exe /d /s /c 'uvx.exe mcp-discovery-engine serve'",
    r"C:\Users\me\.local\bin\uvx.exe mcp-discovery-engine serve",
    "op run -- discovery serve",
    "docker run -i --rm -v /x:/x ghcr.io/acme/mcp-discovery-engine:1.2 serve",
    "docker run -i discovery:latest serve",
]
OTHERS = [
    "discovery list",
    "discovery-server serve",
    "service-discovery serve",
    "uvx discovery serve",
    "uvx --from other discovery serve",
    "npx -y discovery serve",
    "node discovery/index.js serve",
    "uvx mcp-server-git --repository /home/me/mcp-discovery-engine",
    "npx -y server-filesystem /home/me/discovery",
    "npx -y mcp-remote http://127.0.0.1:9/mcp",
    "docker run -v /src/mcp-discovery-engine:/x -i acme/discovery-service serve",
]


@pytest.mark.requirement("SRC-9")
def test_an_entry_that_starts_this_program_is_left_out_wherever_it_stands(
    discovery: Discovery,
) -> None:
    words = {f"own-{n}": shlex.split(line, posix=False) for n, line in enumerate(OWN)}
    words |= {f"other-{n}": shlex.split(line) for n, line in enumerate(OTHERS)}
    words["discovery"] = ["another-program"]
    words |= {f"own-{n}": shlex.split(line) for n, line in enumerate(OWN) if "'" in line}
    entries = {name: {"command": first, "args": rest} for name, (first, *rest) in words.items()}
    kept = {name for name in words if not name.startswith("own-")}

    done = imported(discovery, {"mcp.json": in_json(entries)})
    again = imported(discovery, {"own.json": in_json({"own": entries["own-0"]})})

    assert written(discovery)["servers"].keys() == kept
    assert (done.code, again.code) == (0, 0)
    said = [line for line in done.err.splitlines() if "it is this program itself" in line]
    assert len(said) == len(OWN)

    (discovery.home / "discovery.yaml").write_text(
        f"sources: [{{type: custom, path: {discovery.home}/files/mcp.json}}]"
    )
    live = discovery("config", "show", "--json").json["configuration"]["servers"]
    added = discovery("add", "mine", "--yes", "--", *words["own-0"])
    setup = discovery.home / "setup.json"
    setup.write_text(json.dumps([{"name": "own", **entries["own-0"]}]))
    synced = discovery("config", "sync", str(setup), "--yes", "--json").json

    assert live.keys() == kept
    assert (added.code, "it is this program itself" in added.err) == (2, True)
    assert [one["name"] for one in synced["skipped"]] == ["own"]
