"""Records what servers write by themselves: notifications, pings, and lines on stderr.

The rate is bounded for each server, so that none can fill the call log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.events import EventBus, ServerNotification
from discovery_engine.store.call_log.log_entry import EntryKind, LogEntry

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.store.call_log.call_log import CallLog
    from discovery_engine.tools.model import ServerName

_MAX_RECORDS_PER_SPAN = 50  # messages, or lines, of one server and kind within a span
_SPAN = 10.0  # seconds
_MAX_RECORDED_LINE_LENGTH = 500  # characters of a line
_METHOD = 200  # characters of a method


class _Rate(Struct):
    began: float
    recorded: int = 0
    skipped: int = 0


class ServerRecorder:
    """Writes the output and the messages of servers to the call log, so many in a time."""

    def __init__(self, log: CallLog, events: EventBus) -> None:
        self._log = log
        self._events = events
        self._rates: dict[tuple[ServerName, EntryKind], _Rate] = {}

    def record_lines(
        self, server: ServerName, lines: Sequence[str], redact: Callable[[str], str]
    ) -> None:
        """Lines that a server's program wrote to stderr at once, such as a traceback: one entry.

        `redact` removes the secrets of its entry.
        """
        texts = [text[:_MAX_RECORDED_LINE_LENGTH] for line in lines if (text := line.rstrip())]
        if count := self._admitted(server, "stderr", len(texts)):
            self._write(server, "stderr", "", redact("\n".join(texts[:count])))

    def record_message(self, server: ServerName, method: str, params: JSONObject | None) -> None:
        """A notification of a server, or its `ping`."""
        kind: EntryKind = "ping" if method == "ping" else "notification"
        if not self._admitted(server, kind, 1):
            return
        self._write(server, kind, method[:_METHOD], _shown(method, params))
        if self._events.wants(ServerNotification):
            # Only who shows what servers write loads what redacts it.
            from discovery_engine.engine.server_notifications import (  # noqa: PLC0415
                notification_event,
            )

            event = notification_event(server, method, params)
            if event is not None:
                self._events.publish(event)

    def _admitted(self, server: ServerName, kind: EntryKind, count: int) -> int:
        """Return the number of messages or lines that may be recorded, of so many."""
        now = time.monotonic()
        rate = self._rates.get((server, kind))
        if rate is None:
            rate = self._rates[server, kind] = _Rate(now)
        elif now - rate.began >= _SPAN:
            if rate.skipped:
                self._write(server, kind, "", f"({rate.skipped} more, not recorded)")
            rate.began, rate.recorded, rate.skipped = now, 0, 0
        admitted = min(count, _MAX_RECORDS_PER_SPAN - rate.recorded)
        rate.recorded += admitted
        rate.skipped += count - admitted
        return admitted

    def _write(self, server: ServerName, kind: EntryKind, method: str, result: JSONValue) -> None:
        outcome = "ok" if kind == "ping" else ""
        entry = LogEntry(self._log.now(), kind, server, method, outcome, by="program")
        self._log.record(entry, result=result)


def _shown(method: str, params: JSONObject | None) -> JSONValue:
    """Return the content of a notification; a log message as a line with its level and logger."""
    text = params.get("data") if params and method == "notifications/message" else None
    if params is None or not isinstance(text, str):
        return params
    names = (params.get(name) for name in ("level", "logger"))
    return ": ".join([*(name for name in names if isinstance(name, str)), text])
