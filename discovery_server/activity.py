"""What the log has of the work of a gateway: each call, and how its servers fare.

One listener on the engine's events. It never sees arguments or results, and a reason has passed
the engine's redaction. A server that goes up and down cannot fill the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line
from discovery_engine.events import (
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

if TYPE_CHECKING:
    from discovery_engine.engine import Engine

logger = logging.getLogger(__name__)

_TROUBLE = frozenset({"degraded", "failing", "crash-looping"})
_LINES = 10  # of one server's state within a span
_SPAN = 600.0  # seconds
_CLIENT = 8  # characters of a client's id


@asynccontextmanager
async def logged(engine: Engine) -> AsyncIterator[None]:
    """Log what the engine does for as long as the block runs, to the last event."""

    def reason(server: ServerName) -> str:
        return next((s.reason for s in engine.view.servers() if s.name == server), "")

    activity = Activity(reason)
    with engine.subscribe() as events:
        try:
            async with open_task_group() as tasks:
                tasks.start_soon(activity.follow, events)
                yield
                tasks.cancel_scope.cancel()
        finally:
            activity.drain(events)


class _Standing(Struct):
    """How one server fares, as far as the log knows, and how much that has taken of the log."""

    trouble: str = ""
    """The state that it is in, or `listing` if only its tools cannot be listed; empty if none."""
    began: float = 0.0
    lines: int = 0
    left_out: int = 0


class Activity:
    """Writes events to the log; `reason` tells why a server is in its state, redacted."""

    def __init__(
        self, reason: Callable[[ServerName], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reason = reason
        self._clock = clock
        self._servers: dict[ServerName, _Standing] = {}

    async def follow(self, events: Subscription) -> None:
        async for event in events:
            self.log(event)

    def drain(self, events: Subscription) -> None:
        """Log what was published and not followed yet."""
        for event in events.drain():
            self.log(event)

    def log(self, event: Event) -> None:
        match event:
            case ToolCalled():
                _log_call(event)
            case ServerConnecting(server):
                logger.debug("%s: connecting", server)
            case ServerDiscovering(server):
                logger.debug("%s: connected, listing its tools", server)
            case ServerConnected(server, count, dropped):
                logger.debug("%s: %d tools, %d of them unusable", server, count + dropped, dropped)
                self._is_well(server)
            case ServerFailed(server, code, message):
                if not self._standing(server).trouble:  # else it was logged as its state
                    self._is_in_trouble(server, "listing", f"{code}: {message}")
            case ServerStateChanged(server, state) if state in _TROUBLE:
                reason = self._reason(server)
                self._is_in_trouble(server, state, f"{state}: {reason}" if reason else state)
            case ServerStateChanged(server, "ready") if self._standing(server).trouble in _TROUBLE:
                self._is_well(server)

    def _standing(self, server: ServerName) -> _Standing:
        return self._servers.setdefault(server, _Standing())

    def _is_in_trouble(self, server: ServerName, trouble: str, line: str) -> None:
        """Log what is wrong; once, however often it is tried and fails again."""
        standing = self._standing(server)
        if standing.trouble != trouble:
            standing.trouble = trouble
            self._write(logging.WARNING, server, line)

    def _is_well(self, server: ServerName) -> None:
        standing = self._standing(server)
        if standing.trouble:
            standing.trouble = ""
            self._write(logging.INFO, server, "recovered")

    def _write(self, level: int, server: ServerName, line: str) -> None:
        standing, now = self._servers[server], self._clock()
        if now - standing.began >= _SPAN:
            if standing.left_out:
                logger.warning("%s: %d more changes of state", server, standing.left_out)
            standing.began, standing.lines, standing.left_out = now, 0, 0
        if standing.lines == _LINES:
            standing.left_out += 1
            return
        standing.lines += 1
        logger.log(level, "%s: %s", server, one_line(line))


def _log_call(called: ToolCalled) -> None:
    key = ToolKey(called.server or ServerName("?"), called.tool)
    # The id of a session is as good as a login to whoever may read the log.
    client = f" for {one_line(called.client[:_CLIENT])}" if called.client else ""
    logger.info(
        "Call of %s%s: %s, %.3f s, %d characters in, %d out",
        key.label,
        client,
        called.outcome,
        called.seconds,
        called.argument_size,
        called.result_size,
    )
