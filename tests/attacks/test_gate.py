"""H01, B02: there is one gate, and nothing that starts or reaches a server stands beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "discovery_engine"
PACKAGES = ("discovery_engine", "discovery_server", "discovery_cli")
COMPILERS = ("re", "regex")
CALLERS_OF_STARTERS = {
    "start_program": {"upstream/stdio/pipe_transport.py", "upstream/stdio/reaper.py"},
    "open_pipe_transport": {"upstream/transport_opening.py"},
    "open_http_transport": {"upstream/transport_opening.py"},
    "open_sse_transport": {"upstream/transport_opening.py"},
    "open_transport": {"upstream/session.py"},
}


@pytest.mark.requirement("TRU-2")
def test_servers_are_started_and_reached_in_one_place() -> None:
    callers: dict[str, set[str]] = {}
    for file, tree in trees(CALLERS_OF_STARTERS, "discovery_engine"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
                callers.setdefault(name, set()).add(file)

    assert {name: callers[name] for name in CALLERS_OF_STARTERS} == CALLERS_OF_STARTERS


@pytest.mark.requirement("TRU-2")
def test_the_gate_is_asked_before_the_first_attempt() -> None:
    source = (ENGINE / "upstream" / "session.py").read_text("utf-8")
    live = source[source.index("async def _connect") : source.index("async def _try")]

    assert live.index("admitted_transport, ") < live.index("self._try(")
    assert source.count("open_transport(") == 1


@pytest.mark.requirement("TRU-2", "SEC-12")
def test_the_gate_is_asked_before_a_command_is_run_and_before_a_transport_is_used() -> None:
    source = (ENGINE / "upstream" / "connection.py").read_text("utf-8")
    used = source[source.index("def admitted_transport") : source.index("def run_commands")]
    ran = source[source.index("def run_commands") : source.index("def _is_kept_apart")]

    assert used.index("admit(server, resolved)") < used.index("return resolved")
    assert ran.index("admit(server, server.transport)") < ran.index("secrets.run(")


FORBIDDEN_MODULES = {"pickle", "shelve", "dill", "xmlrpc", "code"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "system", "popen"}
ONLY_IN = {
    "marshal": {
        "marketplace/entry_index.py",
        "search/index/lazy_map.py",
        "search/index/storage.py",
    }
}


def trees(words: Iterable[str], *packages: str) -> Iterator[tuple[str, ast.Module]]:
    """The files of packages in which one of these words stands; to parse all takes seconds."""
    pattern = re.compile(rf"\b(?:{'|'.join(words)})\b")
    for package in packages:
        for file in (ENGINE.parent / package).rglob("*.py"):
            if pattern.search(text := file.read_text("utf-8")):
                yield file.relative_to(ENGINE.parent / package).as_posix(), ast.parse(text)


def imported(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names=names):
            return {alias.name.partition(".")[0] for alias in names}
        case ast.ImportFrom(module=str() as module):
            return {module.partition(".")[0]}
    return set()


@pytest.mark.requirement("THR-9")
def test_no_text_becomes_code_and_no_shell_reads_any() -> None:
    for file, tree in trees({*FORBIDDEN_MODULES, *FORBIDDEN_CALLS, *ONLY_IN, "shell"}, *PACKAGES):
        for node in ast.walk(tree):
            assert not imported(node) & FORBIDDEN_MODULES, file
            for module in imported(node) & ONLY_IN.keys():
                assert file in ONLY_IN[module]
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                is_pattern = getattr(getattr(node.func, "value", None), "id", "") in COMPILERS
                assert called not in FORBIDDEN_CALLS or is_pattern, (file, node.lineno)
                assert not any(keyword.arg == "shell" for keyword in node.keywords), file
