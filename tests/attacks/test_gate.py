"""H01: there is one gate, and nothing that starts or reaches a server stands beside it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "discovery_engine"
STARTERS = {"open_stdio_link", "open_http_link", "open_sse_link", "start_program"}
ALLOWED = {
    "start_program": {"upstream/stdio.py"},
    "open_stdio_link": {"upstream/session.py"},
    "open_http_link": {"upstream/session.py"},
    "open_sse_link": {"upstream/session.py"},
}


def callers(name: str) -> set[str]:
    return {
        file.relative_to(ENGINE).as_posix()
        for file in ENGINE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name
    }


@pytest.mark.requirement("TRU-2")
@pytest.mark.parametrize("name", sorted(STARTERS))
def test_servers_are_started_and_reached_in_one_place(name: str) -> None:
    assert callers(name) == ALLOWED[name]


@pytest.mark.requirement("TRU-2")
def test_the_gate_is_asked_before_the_first_attempt() -> None:
    source = (ENGINE / "upstream" / "session.py").read_text("utf-8")
    live = source[source.index("async def _live") : source.index("async def _try")]

    assert live.index("self._around.admit(") < live.index("self._try(")
    assert source.count("self._open_link(") == 1
