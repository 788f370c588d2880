"""Progress of connecting to servers, shown on stderr.

On a terminal that supports escape sequences this is a live table; on any other terminal, or with
`-v`, one line for each finished server. Otherwise slow starts alone are reported, and with `--json`
nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stderr
from io import TextIOBase
from typing import TYPE_CHECKING, Protocol, TextIO

import anyio
import click

from discovery_cli.output import Output, allows_escapes, shortened
from discovery_cli.rendering import starting_text
from discovery_engine._util.quantities import counted
from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import columns_of, one_line
from discovery_engine.errors import plain_reason
from discovery_engine.events import (
    Event,
    ServerConnected,
    ServerConnecting,
    ServerDiscovering,
    ServerFailed,
)

if TYPE_CHECKING:
    from discovery_cli.invocation import Invocation
    from discovery_engine.engine import Engine
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.status import ServerReport

_SECOND = 1.0  # seconds
_SLOW = 5.0  # seconds; most servers start within two
_EMBEDDING = 3600.0  # seconds to wait for the vectors of new tools; finished ones are kept
_GAP = "  "
_NARROWEST = 20  # columns of a state
_DRAIN = 1.0  # seconds for events that were published but not shown yet


class Display(Protocol):
    def show(self, event: Event) -> None: ...

    def starting(self, servers: Sequence[ServerReport]) -> None:
        """Show the progress of starting servers; called every second."""


def is_watched(invocation: Invocation) -> bool:
    """Return whether stderr is a terminal on which a person may watch and interrupt the command."""
    is_shown = sys.stderr.isatty() and not os.environ.get("CI")
    return is_shown and not invocation.no_progress


@asynccontextmanager
async def shown(engine: Engine, invocation: Invocation, *, with_lines: bool) -> AsyncIterator[None]:
    """Show the progress of the engine's servers while the block runs."""
    with ExitStack() as stack:
        display = _display(invocation, stack, with_lines=with_lines)
        if display is None:
            yield
            return
        if isinstance(display, Moving):
            stack.enter_context(invocation.screen.moving(display))
        events = stack.enter_context(engine.subscribe())
        watcher = _Watcher(display)
        async with open_task_group() as tasks:
            tasks.start_soon(watcher.follow, events)
            tasks.start_soon(_follow_starts, engine, display)
            yield
            with anyio.move_on_after(_DRAIN):
                await watcher.settled()
            tasks.cancel_scope.cancel()


@contextmanager
def shown_step(invocation: Invocation) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step on one line of the terminal.

    The line is removed when the block ends; without a terminal nothing is shown.
    """
    if not (is_watched(invocation) and allows_escapes(os.environ)):
        yield lambda _: None
        return
    with _Live(sys.stderr) as live, redirect_stderr(live):
        yield lambda step: live.draw([step])


async def embedded(engine: Engine, output: Output, *, said_after: float = _SLOW) -> Notice | None:
    """Wait at most an hour for the vectors of all tools; return a notice if some are missing.

    Their number is written after `said_after` seconds, and then at intervals that double.
    """
    async with open_task_group() as tasks:
        tasks.start_soon(_say_embedded, engine, output, said_after)
        missing = await engine.wait_embedded(timeout=_EMBEDDING)
        tasks.cancel_scope.cancel()
    return missing


async def _say_embedded(engine: Engine, output: Output, wait: float) -> None:
    while True:
        await anyio.sleep(wait)
        wait = 2 * wait
        view = engine.view
        vector_count, tools = len(view.vectors or ()), counted(len(view.catalog), "tool")
        output.say(f"{vector_count:,} of {tools} embedded; Ctrl-C keeps these")


async def _follow_starts(engine: Engine, display: Display) -> None:
    while True:
        await anyio.sleep(_SECOND)
        display.starting([s for s in engine.view.servers() if s.starting_for is not None])


class _Watcher:
    """Feeds a display with events, and tracks which servers are still starting."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._busy: set[ServerName] = set()
        self._changed = anyio.Event()

    async def follow(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            match event:
                case ServerConnecting():
                    self._busy.add(event.server)
                case ServerConnected() | ServerFailed():
                    self._busy.discard(event.server)
            self._display.show(event)
            self._changed.set()

    async def settled(self) -> None:
        while self._busy:
            self._changed = anyio.Event()
            await self._changed.wait()


class Lines:
    """Writes one line for each finished server, and reports slow starts as `Waits` does."""

    def __init__(self, output: Output) -> None:
        self._waits = Waits(output)
        self._output = output

    def starting(self, servers: Sequence[ServerReport]) -> None:
        self._waits.starting(servers)

    def show(self, event: Event) -> None:
        match event:
            case ServerConnected():
                tools = counted(event.tool_count, "tool")
                dropped = f", {event.dropped_count} unusable" if event.dropped_count else ""
                self._write(f"{event.server}: {tools}{dropped}", good=True)
            case ServerFailed():
                self._write(event.message, good=False)

    def _write(self, text: str, *, good: bool) -> None:
        sys.stderr.write(f"{self._output.mark(good=good).text} {one_line(text)}\n")
        sys.stderr.flush()


class Waits:
    """Reports a slow start after five seconds, and again whenever the time has doubled.

    So the log of a script explains a delay in a few lines.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._next: dict[ServerName, float] = {}

    def show(self, event: Event) -> None:
        """Ignore the event: finished servers are not reported."""

    def starting(self, servers: Sequence[ServerReport]) -> None:
        for server in servers:
            seconds = server.starting_for or 0.0
            if seconds >= self._next.get(server.name, _SLOW):
                self._next[server.name] = 2 * max(seconds, _SLOW)
                self._output.say(_slow_start(server))


class Moving:
    """A live table of the starting servers, which is removed when `stack` is closed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._live: _Live | None = None
        self._is_paused = False
        self._states: dict[ServerName, tuple[str, str]] = {}

    def starting(self, servers: Sequence[ServerReport]) -> None:
        for server in servers:
            self._states[server.name] = starting_text(server), "yellow"
        if servers:
            self._draw()

    def show(self, event: Event) -> None:
        match event:
            case ServerConnecting():
                self._states[event.server] = "connecting", "yellow"
            case ServerDiscovering():
                self._states[event.server] = "discovering", "cyan"
            case ServerConnected():
                self._states[event.server] = counted(event.tool_count, "tool"), "green"
            case ServerFailed():
                reason = plain_reason(event.server, event.message)
                self._states[event.server] = one_line(reason), "red"
            case _:
                return
        self._draw()

    def pause(self) -> None:
        """Remove the table from the terminal; see `Movement.pause`."""
        self._is_paused = True
        if self._live:
            self._live.draw([])

    def resume(self) -> None:
        """Allow the table to be drawn again; see `Movement.resume`."""
        self._is_paused = False

    def _draw(self) -> None:
        if self._is_paused:
            return
        if not self._live:  # created on first use: a run that connects to no server needs none
            self._live = self._stack.enter_context(_Live(sys.stderr))
            self._stack.enter_context(redirect_stderr(self._live))
        self._live.draw(_rows(self._states, self._live.width))


def _display(invocation: Invocation, stack: ExitStack, *, with_lines: bool) -> Display | None:
    if invocation.no_progress:
        return None
    is_terminal = is_watched(invocation)
    if is_terminal and allows_escapes(os.environ) and not invocation.verbose:
        return Moving(stack)
    if is_terminal or invocation.verbose or with_lines:
        return Lines(invocation.output)
    return None if invocation.as_json else Waits(invocation.output)


def _slow_start(server: ServerReport) -> str:
    text = starting_text(server).removeprefix("starting")
    return f"starting {one_line(server.name)}{text}"


def _rows(states: Mapping[ServerName, tuple[str, str]], width: int) -> list[str]:
    names = {server: one_line(server) for server in states}
    column = max(map(columns_of, names.values()))
    rows = []
    for server, (state, colour) in states.items():
        name = names[server] + " " * (column - columns_of(names[server]))
        text = shortened(state, max(width - column - len(_GAP), _NARROWEST), "…")
        rows.append(f"{name}{_GAP}{click.style(text, fg=colour)}")
    return rows


class _Live(TextIOBase):
    """Lines at the bottom of a terminal that are drawn again and again, below all other text.

    What is written to it appears above these lines. They are removed when it is closed.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lines: Sequence[str] = ()
        self._drawn = 0  # lines

    @property
    def width(self) -> int:
        """The columns of a line; the last one is free, as some terminals break the line there."""
        return _size(self._terminal).columns - 1

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines in place of those before, as many as the terminal has rows for."""
        self._lines = lines
        self.write("")

    def write(self, text: str) -> int:
        erased = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        at_line_end = text.endswith("\n") or not text
        lines = self._lines[: _size(self._terminal).lines - 1] if at_line_end else ()
        self._drawn = len(lines)
        self._terminal.write(erased + text + "".join(f"{line}\n" for line in lines))
        self._terminal.flush()
        return len(text)

    def isatty(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self.draw([])
        super().close()


def _size(terminal: TextIO) -> os.terminal_size:
    try:
        size = os.get_terminal_size(terminal.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    # A terminal that nobody has set up has no columns and no lines.
    return os.terminal_size((size.columns or 80, size.lines or 24))
