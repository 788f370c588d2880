"""A clone of an evil repository, and every way into it.

Each asserts on the side effect: the mark that the server would leave is not there.
"""

from __future__ import annotations

import json
import marshal
import os
import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.conftest import Repository
from tests.factories import make_definition
from tests.told import Told

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


@pytest.mark.requirement("TRU-2")
def test_no_reference_in_a_command_gets_around_the_approval(repository: Repository) -> None:
    (repository.path / "command.txt").write_text("/bin/sh", "utf-8")
    args = ["-c", f"touch {repository.mark}"]
    for program in ("${SHELL}", "${${A}}", "${NOWHERE:-/bin/sh}", "${file:command.txt}"):
        repository.configure(trap={"command": program, "args": args})
        for words in (["refresh"], ["execute", "trap:x"], ["doctor", "--online"]):
            repository(*words, SHELL="/bin/sh", A="SHELL")

        assert not repository.is_sprung, program


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{one}: &{one} [{','.join([f'*{before}'] * 9)}]\n"
    for before, one in zip("abcdefgh", "bcdefghi", strict=True)
)


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def endless(path: Path, _: Path) -> None:
    path.write_bytes(b"#" * (2 * 1024 * 1024))


def deep(path: Path, _: Path) -> None:
    path.write_text("[" * 20_000, "utf-8")


def laughing(path: Path, _: Path) -> None:
    path.write_text(LAUGHS, "utf-8")


def hooked(path: Path, mark: Path) -> None:
    path.write_text(json.dumps({"listChangedExec": ["touch", str(mark)]}), "utf-8")


def hooking_server(path: Path, mark: Path) -> None:
    server = {"command": "true", "onListChanged": f"touch {mark}"}
    path.write_text(json.dumps({"servers": {"x": server}, "hooks": {"start": "touch x"}}), "utf-8")


def tagged(path: Path, mark: Path) -> None:
    path.write_text(f"x: !!python/object/apply:os.system ['touch {mark}']", "utf-8")


FILES: list[Callable[[Path, Path], None]] = [
    fifo, device, endless, deep, laughing, hooked, hooking_server, tagged,
]  # fmt: skip


@pytest.mark.requirement("CFG-13")
@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_a_configuration_that_is_a_trap_is_refused_and_does_nothing(
    repository: Repository, make: Callable[[Path, Path], None]
) -> None:
    make(repository.path / "discovery.yaml", repository.mark)

    done = [repository(*words) for words in (["list"], ["refresh"], ["config", "check"])]

    assert [one.code for one in done] == [2, 2, 2]
    assert not repository.is_sprung
    assert "Traceback" not in "".join(one.err for one in done)
    assert max(len(one.out + one.err) for one in done) < 50_000


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.thorough
@pytest.mark.requirement("REL-44")
@pytest.mark.parametrize("kind", ["a pickle", "code", "cut short"])
def test_an_index_that_was_planted_is_built_anew(repository: Repository, kind: str) -> None:
    told = Told.beside(repository.home, make_definition("count", "Counts the words of a text."))
    command, *args = told.command
    config = repository.home / "discovery.yaml"
    config.write_text(json.dumps({"servers": {"told": {"command": command, "args": args}}}))
    environ = {"DISCOVERY_CONFIG": str(config)}
    assert repository("refresh", **environ).code == 0
    with closing(sqlite3.connect(repository.home / "data" / "registry.db")) as registry:
        [(kept,)] = registry.execute("SELECT data FROM indexes").fetchall()
        planted = {
            "a pickle": pickle.dumps(Bomb(repository.mark)),
            "code": marshal.dumps(compile(f"open({str(repository.mark)!r}, 'w')", "x", "exec")),
            "cut short": kept[: len(kept) // 2],
        }
        registry.execute("UPDATE indexes SET data = ?", (planted[kind],))
        registry.commit()

    done = repository("search", "count words", **environ)

    assert (done.code, "told:count" in done.out) == (0, True)
    assert not repository.is_sprung
