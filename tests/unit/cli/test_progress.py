from __future__ import annotations

import io
import sys
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

from discovery_cli.output import Output
from discovery_cli.progress import Moving, Waits, embedded
from discovery_engine.catalog import ServerPart
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import ServerReport
from tests.factories import make_settings
from tests.unit.cli.backends import FakeEngine, usual_view, view_of

pytestmark = pytest.mark.anyio

TIME, GIT = ServerName("time"), ServerName("git")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_for(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of stderr; not a fixture, as pytest puts its own there for each test."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def starting(*seconds: float, stderr: str = "") -> list[ServerReport]:
    """Servers that have been starting for so many seconds."""
    names = [TIME, GIT][: len(seconds)]
    live = {
        name: StateInfo(ServerState.STARTING, starting_for=one, stderr=stderr)
        for name, one in zip(names, seconds, strict=True)
    }
    view = view_of(make_settings(*names), *map(ServerPart, names), live=live)
    return sorted(view.servers(), key=lambda server: names.index(server.name))


@pytest.mark.requirement("CLI-29")
def test_a_slow_start_is_a_line_each_time_that_it_has_taken_twice_as_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waits = Waits(Output())

    for second in range(1, 45):
        waits.starting(starting(float(second), 0.0, stderr="Resolving\nDown\x1b[1mloading"))

    assert capsys.readouterr().err.splitlines() == [
        f'starting time, {seconds} s, "Downloading"' for seconds in (5, 10, 20, 40)
    ]


@pytest.mark.requirement("CLI-29")
async def test_a_terminal_shows_how_far_a_slow_start_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = terminal_for(monkeypatch)
    with ExitStack() as stack:
        Moving(stack).starting(starting(12.9, stderr="Downloading"))

    assert 'starting, 12 s, "Downloading"' in stderr.getvalue()


@pytest.mark.requirement("CLI-29")
async def test_what_is_written_meanwhile_stays_above_the_live_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = terminal_for(monkeypatch)
    with ExitStack() as stack:
        moving = Moving(stack)
        moving.starting(starting(1.0, 1.0))
        before = len(stderr.getvalue())
        sys.stderr.write("note\n")

        erased, table = stderr.getvalue()[before:].split("note\n")

    assert erased == "\x1b[2F\x1b[J"
    assert "time" in table.splitlines()[0]
    assert "git" in table.splitlines()[1]
    assert stderr.getvalue().endswith(table + erased)


@pytest.mark.requirement("EMB-18")
async def test_while_vectors_are_waited_for_it_is_said_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_said = anyio.Event()

    class Stderr(io.StringIO):
        def write(self, text: str) -> int:
            is_said.set()
            return super().write(text)

    class Slow(FakeEngine):
        async def wait_embedded(self, *, timeout: float) -> None:  # noqa: ASYNC109 - as the engine's
            await is_said.wait()

    stderr = Stderr()
    monkeypatch.setattr("sys.stderr", stderr)
    engine: Any = Slow(usual_view())

    with anyio.fail_after(60):
        await embedded(engine, Output(), said_after=0.01)

    assert stderr.getvalue().splitlines()[0].startswith("0 of ")
