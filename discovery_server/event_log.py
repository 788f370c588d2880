"""The event log of a gateway: each call, and the changes of its servers' states.

One subscriber to the engine's events. Events contain no arguments and no results, and their reasons
are redacted. A server that goes up and down cannot fill the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line
from discovery_engine.events import (
    EVENTS,
    FREQUENT,
    Event,
    ServerConnected,
    ServerConnecting,
    ServerDiscovering,
    ServerFailed,
    ServerStateChanged,
    Subscription,
    ToolCalled,
)
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_server.logs import EACH_LINE

if TYPE_CHECKING:
    from discovery_engine.engine import Engine

logger = logging.getLogger(__name__)

_OF_SERVERS = tuple(kind for kind in EVENTS if kind not in FREQUENT)
_PROBLEM_STATES = frozenset({"degraded", "failing", "crash-looping"})
_LINES = 10  # of one server's state within a span
_SPAN = 600.0  # seconds
_CLIENT = 8  # characters of a client's id
_PAUSE = 0.05  # seconds; a task and a thread woken for each line took a sixth of a call


@asynccontextmanager
async def logged(engine: Engine) -> AsyncIterator[None]:
    """Log the engine's events until the block ends, including the last one."""

    def reason(server: ServerName) -> str:
        return next((s.reason for s in engine.view.servers() if s.name == server), "")

    event_log = EventLog(reason)
    # Each call would wake a task for a line that is not written, a twentieth of the call.
    of_calls = (ToolCalled,) if logger.isEnabledFor(logging.INFO) else ()
    with engine.subscribe(*_OF_SERVERS, *of_calls) as events:
        try:
            async with open_task_group() as tasks:
                tasks.start_soon(event_log.follow, events)
                yield
                tasks.cancel_scope.cancel()
        finally:
            event_log.log(*events.drain())


class _ServerLog(Struct):
    """The log state of one server, for suppressing repeats and limiting the rate."""

    problem: str = ""
    """The problem that was logged last: a state, or `listing`; empty if it is healthy."""
    began: float = 0.0
    lines: int = 0
    left_out: int = 0


class EventLog:
    """Writes events to the log; `reason` returns the redacted reason for a server's state."""

    def __init__(
        self, reason: Callable[[ServerName], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reason = reason
        self._clock = clock
        self._servers: dict[ServerName, _ServerLog] = {}

    async def follow(self, events: Subscription) -> None:
        async for event in events:
            self.log(event, *events.drain())
            await anyio.sleep(_PAUSE)

    def log(self, *events: Event) -> None:
        """Log events, calls in a row as one record."""
        for _, row in groupby(events, type):
            of_kind = list(row)
            if lines := [_call_line(event) for event in of_kind if isinstance(event, ToolCalled)]:
                logger.info("%s", "\n".join(lines), extra=EACH_LINE)
                continue
            for event in of_kind:
                self._log_of_server(event)

    def _log_of_server(self, event: Event) -> None:
        match event:
            case ServerConnecting(server):
                logger.debug("%s: connecting", server)
            case ServerDiscovering(server):
                logger.debug("%s: connected, listing its tools", server)
            case ServerConnected(server, count, dropped):
                logger.debug("%s: %d tools, %d of them unusable", server, count + dropped, dropped)
                self._log_recovery(server)
            case ServerFailed(server, code, message):
                if not self._server_log(server).problem:  # otherwise its state was logged
                    self._log_problem(server, "listing", f"{code}: {message}")
            case ServerStateChanged(server, state) if state in _PROBLEM_STATES:
                reason = self._reason(server)
                self._log_problem(server, state, f"{state}: {reason}" if reason else state)
            case ServerStateChanged(server, "ready") if (
                self._server_log(server).problem in _PROBLEM_STATES
            ):
                self._log_recovery(server)

    def _server_log(self, server: ServerName) -> _ServerLog:
        return self._servers.setdefault(server, _ServerLog())

    def _log_problem(self, server: ServerName, problem: str, line: str) -> None:
        """Log a problem once, however often the server is retried and fails again."""
        logged_state = self._server_log(server)
        if logged_state.problem != problem:
            logged_state.problem = problem
            self._write(logging.WARNING, server, line)

    def _log_recovery(self, server: ServerName) -> None:
        logged_state = self._server_log(server)
        if logged_state.problem:
            logged_state.problem = ""
            self._write(logging.INFO, server, "recovered")

    def _write(self, level: int, server: ServerName, line: str) -> None:
        logged_state, now = self._servers[server], self._clock()
        if now - logged_state.began >= _SPAN:
            if logged_state.left_out:
                logger.warning("%s: %d more changes of state", server, logged_state.left_out)
            logged_state.began, logged_state.lines, logged_state.left_out = now, 0, 0
        if logged_state.lines == _LINES:
            logged_state.left_out += 1
            return
        logged_state.lines += 1
        logger.log(level, "%s: %s", server, one_line(line))


def _call_line(called: ToolCalled) -> str:
    key = ToolKey(called.server or ServerName("?"), called.tool)
    # A whole session id would allow any reader of the log to use the session.
    client = f" for {one_line(called.client[:_CLIENT])}" if called.client else ""
    return (
        f"Call of {key.label}{client}: {called.outcome}, {called.seconds:.3f} s,"
        f" {called.argument_size} characters in, {called.result_size} out"
    )
