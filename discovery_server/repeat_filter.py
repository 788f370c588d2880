"""A log filter for repeated warnings of libraries: the first few are logged, the rest are counted.

A client can cause a warning of the HTTP server with each request, and asyncio warns of every
connection when descriptors run out: thousands of records a second, each with a stack trace.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

logger = logging.getLogger(__name__)

_LIBRARIES = frozenset({"anyio", "asyncio", "mcp", "uvicorn"})
_FIRST = 5  # that are logged within a window
_WINDOW = 60.0  # seconds
_MARK = "is_repeat"

_Kind: TypeAlias = tuple[str, int, Any]


class _Window(Struct):
    ends: float
    seen: int = 0


class RepeatFilter(logging.Filter):
    """Shared by all handlers of a log, so that a record is counted once."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._windows: dict[_Kind, _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or record.name.partition(".")[0] not in _LIBRARIES:
            return True
        if not hasattr(record, _MARK):
            setattr(record, _MARK, self._is_repeat(record))
        return not getattr(record, _MARK)

    def report(self) -> None:
        """Log the counts that were not reported yet."""
        for kind, window in self._windows.items():
            _report(kind, window)
        self._windows.clear()

    def _is_repeat(self, record: logging.LogRecord) -> bool:
        # By position in the code: the text may contain the id of a session or a task.
        kind = record.name, record.lineno, record.exc_info[0] if record.exc_info else None
        now = self._clock()
        window = self._windows.setdefault(kind, _Window(now + _WINDOW))
        if now >= window.ends:
            _report(kind, window)
            window = self._windows[kind] = _Window(now + _WINDOW)
        window.seen += 1
        return window.seen > _FIRST


def _report(kind: _Kind, window: _Window) -> None:
    if (left_out := window.seen - _FIRST) > 0:
        logger.warning(
            "%d more warnings of %s like the last ones were suppressed", left_out, kind[0]
        )
