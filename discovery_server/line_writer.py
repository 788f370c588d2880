"""Lines written by a thread, so that whoever logs never waits for whoever reads.

A pipe that nobody reads is full after 64 KiB, and the next write to it blocks its thread for good.
Many clients start a gateway and never read its stderr.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from queue import SimpleQueue


class LineWriter:
    """A stream for a log: `write` returns at once, and a thread hands the text on.

    When more than `most` characters wait, lines are dropped until all of them are written; then
    follows a line with the number of those that are missing. `sink` may block, and may raise, which
    drops what it was given.
    """

    def __init__(self, sink: Callable[[str], object], *, most: int) -> None:
        self._sink = sink
        self._most = most
        self._waiting = SimpleQueue[str | None]()
        self._size = 0  # characters that wait or are being written
        self._is_full = False
        self._dropped = 0  # lines
        # Reentrant, as a destructor may write while the same thread does.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        with self._lock:
            if self._size and self._size + len(text) > self._most:
                self._is_full = True
            if self._is_full:
                self._dropped += text.count("\n")
                return
            self._size += len(text)
            self._waiting.put(text)

    def flush(self) -> None:
        """No-op, for those who flush after each line; `close` is what waits."""

    def close(self, within: float) -> bool:
        """Wait until all is written, for at most `within` seconds; whether it is."""
        self._waiting.put(None)
        self._thread.join(within)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (text := self._waiting.get()) is not None:
            self._hand_on(text, lines=text.count("\n"))
            if dropped := self._dropped_before_next(len(text)):
                self._hand_on(f"… {dropped} log lines were dropped\n", lines=dropped)

    def _hand_on(self, text: str, *, lines: int) -> None:
        try:
            self._sink(text)
        except (OSError, ValueError):  # of a reader that is gone, of a text that has no encoding
            with self._lock:
                self._dropped += lines

    def _dropped_before_next(self, written: int) -> int:
        """How many lines are missing here; 0 as long as others wait that came before those."""
        with self._lock:
            self._size -= written
            if self._size:
                return 0
            self._is_full = False
            dropped, self._dropped = self._dropped, 0
            return dropped


def write_all(descriptor: int, data: bytes) -> None:
    """Write however long it takes, also to a descriptor that somebody has made non-blocking."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()
