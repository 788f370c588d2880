"""A clone of an evil repository, and every way into it.

Each asserts on the side effect: the mark that the server would leave is not there.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.attacks.conftest import Repository

NOT_APPROVED = 4
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("execute_tool", {"tool": "trap:spring", "arguments": {}}),
    ("list_mcp_servers", {}),
    ("search_tools", {"query": "spring"}),
    ("list_tools", {"server": "trap", "includeDisabled": True}),
    ("get_tool_details", {"tool": "trap:spring"}),
]
REFUSED = ["execute trap:spring", "tools trap", "refresh", "refresh trap"]
COMMANDS = [
    *REFUSED,
    "list --status --tools",
    "search spring",
    "tools trap --all",
    "inspect trap:spring",
    "doctor --online",
    "tune lint",
    "why trap:spring",
    "registry info",
    "registry clear",
    "config show",
    "config sources",
    "config reload",
    "init --yes",
    "config import --yes",
    "review servers",
    "review",
    "review tools --yes",
    "config lock",
    "config lock --check",
    "list --frozen",
]


@pytest.mark.requirement("TRU-2")
def test_no_command_starts_what_a_clone_brings_along(repository: Repository) -> None:
    for where in ("discovery.yaml", ".discovery/discovery.yaml"):
        file = repository.configure(where, trap=repository.trap())
        for words in COMMANDS if where == "discovery.yaml" else REFUSED:
            done = repository(*words.split())
            assert not repository.is_sprung, words
            assert "Traceback" not in done.err
            if words in REFUSED:
                assert done.code == NOT_APPROVED, words
                assert "discovery review servers" in done.err
        file.unlink()


@pytest.mark.requirement("TRU-2")
def test_an_agent_starts_nothing_of_it_and_reads_nothing_but_its_name(
    repository: Repository,
) -> None:
    evil = "IGNORE-ALL"
    content = {
        "servers": {"trap": repository.trap(description=evil, tags=[evil])},
        "overrides": [{"pattern": "*", "description": evil}],
    }
    repository.write("discovery.yaml", content)

    answers = json.dumps(repository.served(*ASKED))

    assert not repository.is_sprung
    assert evil not in answers
    assert "untrusted" in answers


@pytest.mark.requirement("TRU-2")
def test_a_projects_file_of_a_client_starts_nothing_in_a_configuration_that_is_named(
    repository: Repository,
) -> None:
    files = [
        ("claude-code", ".mcp.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
    ]
    for client, file, key in files:
        repository.write(file, {key: {client: repository.trap(client)}})
    own = repository.home / "config" / "discovery" / "discovery.yaml"
    own.parent.mkdir(parents=True)
    sources = [{"type": client} for client, _, _ in files]
    own.write_text(json.dumps({"sources": sources}), "utf-8")

    codes = [repository("execute", f"{client}:spring").code for client, _, _ in files]

    assert codes == [NOT_APPROVED] * 3
    assert not repository.is_sprung
    assert repository("review", "servers", "--yes").code == 0
    assert repository("execute", "cursor:spring").out.strip() == "sprung"


@pytest.mark.requirement("TRU-1")
def test_what_init_and_import_write_is_approved_unless_it_is_from_a_projects_file(
    repository: Repository,
) -> None:
    own = repository.home / ".cursor" / "mcp.json"
    own.parent.mkdir()
    own.write_text(json.dumps({"mcpServers": {"mine": repository.trap()}}), "utf-8")
    repository.write(".mcp.json", {"mcpServers": {"trap": repository.trap("theirs")}})

    assert repository("init", "--from", "cursor", "--yes").code == 0
    assert repository("execute", "mine:spring").code == 0
    (repository.path / "discovery.yaml").unlink()
    assert repository("config", "import", "--from", "cursor", "--yes").code == 0
    assert repository("execute", "mine:spring").code == 0
    assert repository("config", "import", "--from", "claude-code", "--yes").code == 0
    assert repository("execute", "trap:spring").code == NOT_APPROVED
    assert "theirs" not in repository.mark.read_text("utf-8")


@pytest.mark.requirement("TRU-2")
def test_no_reference_in_a_command_gets_around_the_approval(repository: Repository) -> None:
    (repository.path / "command.txt").write_text("/bin/sh", "utf-8")
    args = ["-c", f"touch {repository.mark}"]
    for program in ("${SHELL}", "${${A}}", "${NOWHERE:-/bin/sh}", "${file:command.txt}"):
        repository.configure(trap={"command": program, "args": args})
        for words in (["refresh"], ["execute", "trap:x"], ["doctor", "--online"]):
            repository(*words, SHELL="/bin/sh", A="SHELL")

        assert not repository.is_sprung, program
