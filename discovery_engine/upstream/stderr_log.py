"""Logs the stderr lines of programs, under the name of their server.

One log line for each stderr line, redacted, with control and invisible characters escaped. The
rate is bounded, so that no program can flood the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from discovery_engine._util.text import visible

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName

logger = logging.getLogger(__name__)

_LINES = 50  # logged per server and span
_SPAN = 10.0  # seconds
_MAX_STDERR_LINE_LENGTH = 500  # characters of a line


class StderrLog:
    """The stderr log of one server; `clock` is monotonic, in seconds."""

    def __init__(self, server: ServerName, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self._began = clock()
        self._logged = 0
        self._skipped = 0

    def write(self, lines: Sequence[str], redact: Callable[[str], str]) -> None:
        """Log lines up to the rate limit and count the rest; `redact` removes secrets."""
        if not logger.isEnabledFor(logging.INFO):
            return
        if (now := self._clock()) - self._began >= _SPAN:
            self._begin(now)
        for number, line in enumerate(lines):
            if self._logged == _LINES:
                self._skipped += len(lines) - number
                break
            if text := line.rstrip():
                self._logged += 1
                logger.info("%s: %s", self._server, _fit(redact(text)))

    def _begin(self, now: float) -> None:
        """Begin another span; log how many lines of the last one were skipped."""
        if self._skipped:
            logger.info("%s: (%d more lines, not logged)", self._server, self._skipped)
        self._began, self._logged, self._skipped = now, 0, 0


def _fit(line: str) -> str:
    text = visible(line[:_MAX_STDERR_LINE_LENGTH]).replace("\t", "    ")
    return f"{text}…" if len(line) > _MAX_STDERR_LINE_LENGTH else text
