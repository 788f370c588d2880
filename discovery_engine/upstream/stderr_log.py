"""What programs write to their error output, told in the log as theirs.

One line of the log for each, without what was given in confidence, and with whatever a terminal
would obey, or nobody would see, written out. The one rule: no program can fill the log.
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

_LINES = 50  # told of one program within a span
_SPAN = 10.0  # seconds
_LENGTH = 500  # characters of a line


class StderrLog:
    """All that one server's programs say; `clock` gives seconds that never go back."""

    def __init__(self, server: ServerName, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self._began = clock()
        self._told = 0
        self._left_out = 0

    def write(self, lines: Sequence[str], hide: Callable[[str], str]) -> None:
        """Log lines, and count those that are too many; `hide` takes secrets out of them."""
        if not logger.isEnabledFor(logging.INFO):
            return
        if (now := self._clock()) - self._began >= _SPAN:
            self._begin(now)
        for number, line in enumerate(lines):
            if self._told == _LINES:
                self._left_out += len(lines) - number
                break
            if text := line.rstrip():
                self._told += 1
                logger.info("%s: %s", self._server, _fit(hide(text)))

    def _begin(self, now: float) -> None:
        """Another span, and how much was left out of the last one."""
        if self._left_out:
            logger.info("%s: (%d more lines, which are not told)", self._server, self._left_out)
        self._began, self._told, self._left_out = now, 0, 0


def _fit(line: str) -> str:
    shown = visible(line[:_LENGTH]).replace("\t", "    ")
    return f"{shown}…" if len(line) > _LENGTH else shown
