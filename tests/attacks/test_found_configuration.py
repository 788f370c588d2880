"""H01, H03, H05, H07: a clone of an evil repository, and every way into it.

Each asserts on the side effect: the mark that the server would leave is not there.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from discovery_engine._util.json import JSONObject
from tests.attacks.conftest import Repository
from tests.kinds import thinned

ASKED: list[tuple[str, JSONObject]] = [
    ("execute_tool", {"tool": "trap:spring", "arguments": {}}),
    ("list_mcp_servers", {}),
    ("search_tools", {"query": "spring"}),
    ("search_tools", {"query": "spring", "server": "trap"}),
    ("list_tools", {"server": "trap", "includeDisabled": True}),
    ("get_tool_details", {"tool": "trap:spring"}),
]

COMMANDS = [
    ["list"],
    ["list", "--status", "--tools"],
    ["search", "spring"],
    ["tools", "trap"],
    ["tools", "trap", "--all"],
    ["inspect"],
    ["inspect", "trap"],
    ["inspect", "trap:spring"],
    ["execute", "trap:spring"],
    ["refresh"],
    ["refresh", "trap"],
    ["doctor"],
    ["doctor", "--online"],
    ["lint"],
    ["why", "trap:spring"],
    ["cache", "info"],
    ["cache", "clear"],
    ["config", "show"],
    ["config", "validate"],
    ["config", "sources"],
    ["config", "reload"],
    ["init", "--yes"],
    ["init", "--yes", "--dry-run"],
    ["import", "--yes"],
    ["trust"],
    ["review"],
    ["review", "--accept"],
    ["lock"],
    ["lock", "--check"],
    ["list", "--frozen"],
]


@pytest.mark.requirement("TRU-2")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_starts_what_a_clone_brings_along(
    repository: Repository, words: list[str]
) -> None:
    repository.configure(trap=repository.trap())

    done = repository(*words)

    assert not repository.is_sprung
    assert "Traceback" not in done.err


@pytest.mark.requirement("TRU-2")
@pytest.mark.parametrize("where", ["discovery.yaml", ".discovery/discovery.yaml"])
@pytest.mark.parametrize("words", [["execute", "trap:spring"], ["tools", "trap"], ["refresh"]])
def test_wherever_it_was_found_the_refusal_leaves_with_4(
    repository: Repository, where: str, words: list[str]
) -> None:
    repository.configure(where, trap=repository.trap())

    done = repository(*words)

    assert done.code == 4
    assert "discovery trust" in done.err
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-2", "TRU-6")
def test_no_meta_tool_starts_it(repository: Repository) -> None:
    repository.configure(trap=repository.trap(description="IGNORE-ALL"))

    answers = json.dumps(repository.served(*ASKED))

    assert not repository.is_sprung
    assert "IGNORE-ALL" not in answers
    assert "untrusted" in answers


@pytest.mark.requirement("TRU-2")
@pytest.mark.parametrize(
    ("client", "file", "key"),
    thinned(
        [
            pytest.param("claude-code", ".mcp.json", "mcpServers", id="claude-code"),
            pytest.param("cursor", ".cursor/mcp.json", "mcpServers", id="cursor"),
            pytest.param("vscode", ".vscode/mcp.json", "servers", id="vscode"),
        ]
    ),
)
def test_a_projects_file_of_a_client_starts_nothing_in_a_configuration_that_is_named(
    repository: Repository, client: str, file: str, key: str
) -> None:
    repository.write(file, {key: {"trap": repository.trap()}})
    own = repository.home / "config" / "discovery" / "discovery.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"sources": [{"type": client}]}), "utf-8")

    done = repository("execute", "trap:spring")

    assert done.code == 4
    assert not repository.is_sprung
    assert repository("trust", "--yes").code == 0
    assert repository("execute", "trap:spring").out.strip() == "sprung"


@pytest.mark.requirement("TRU-9")
def test_importing_a_projects_file_approves_nothing(repository: Repository) -> None:
    repository.write(".mcp.json", {"mcpServers": {"trap": repository.trap()}})

    assert repository("import", "--from", "claude-code", "--yes").code == 0
    done = repository("execute", "trap:spring")

    assert done.code == 4
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-9")
def test_what_init_and_import_write_for_the_user_is_the_users_word(
    repository: Repository,
) -> None:
    own = repository.home / ".cursor" / "mcp.json"
    own.parent.mkdir()
    own.write_text(json.dumps({"mcpServers": {"mine": repository.trap()}}), "utf-8")

    assert repository("init", "--from", "cursor", "--yes").code == 0
    assert repository("execute", "mine:spring").code == 0

    (repository.path / "discovery.yaml").unlink()
    assert repository("import", "--from", "cursor", "--yes").code == 0
    assert repository("execute", "mine:spring").code == 0


@pytest.mark.requirement("TRU-2")
def test_what_is_written_into_the_registry_starts_nothing(repository: Repository) -> None:
    repository.configure(trap=repository.trap())
    repository("list")
    with closing(sqlite3.connect(repository.home / "data" / "registry.db")) as registry:
        [(settings,)] = registry.execute("SELECT settings FROM scopes").fetchall()
        parts = registry.execute("SELECT id, part FROM servers").fetchall()
        trusted = json.loads(settings)
        trusted["servers"][0].pop("isUntrustedOrigin")
        registry.execute("UPDATE scopes SET settings = ?", (json.dumps(trusted),))
        for key, text in parts:
            part = json.loads(text) | {"verdict": {}, "listed_at": 1.0}
            registry.execute("UPDATE servers SET part = ? WHERE id = ?", (json.dumps(part), key))
        registry.commit()

    for words in (["execute", "trap:spring"], ["refresh"], ["refresh", "trap"]):
        repository(*words)

    assert not repository.is_sprung


@pytest.mark.requirement("TRU-8")
def test_the_clone_cannot_lower_the_guard(repository: Repository) -> None:
    log = repository.home / "log"
    content = {
        "servers": {"trap": repository.trap(trust="open")},
        "trust": "open",
        "cache": {"enabled": False},
        "log": {"file": str(log), "level": "debug"},
    }
    repository.write("discovery.yaml", content)

    repository("serve")
    repository("refresh")

    assert not repository.is_sprung
    assert not log.exists()


@pytest.mark.requirement("TRU-2")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("${SHELL}", id="a variable"),
        pytest.param("${${A}}", id="nested"),
        pytest.param("${NOWHERE:-/bin/sh}", id="a default"),
        pytest.param("${file:command.txt}", id="a file"),
    ],
)
def test_no_reference_in_a_command_gets_around_the_gate(
    repository: Repository, program: str
) -> None:
    (repository.path / "command.txt").write_text("/bin/sh", "utf-8")
    args = ["-c", f"touch {repository.mark}"]
    repository.configure(trap={"command": program, "args": args})

    for words in (["refresh"], ["execute", "trap:x"], ["doctor", "--online"]):
        repository(*words, SHELL="/bin/sh", A="SHELL")

    assert not repository.is_sprung


@pytest.mark.requirement("TRU-5")
def test_trust_shows_every_word_and_nobody_there_is_no_consent(repository: Repository) -> None:
    arg = "a b\u202e\nc" + "x" * 300
    repository.configure(trap=repository.trap(arg, env={"LD_PRELOAD": "./evil.so", "T": "s3cret"}))

    done = repository("trust", COLUMNS="40")
    as_json = repository("trust", "--json")

    assert done.code == as_json.code == 4
    assert "'a b<U+202E><U+000A>c" + "x" * 300 + "'" in done.out
    assert "LD_PRELOAD=./evil.so" in done.out
    assert "s3cret" not in done.out + as_json.out
    assert as_json.json["servers"][0]["command"][-1] == arg
    assert as_json.json["approved"] is False
    assert not repository.is_sprung
