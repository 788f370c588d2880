"""A writer thread for log lines, so that logging never waits for a reader.

A pipe that is not read is full after 64 KiB, and the next write to it blocks forever. Many clients
start a gateway and never read its stderr.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue


class LineWriter:
    """A stream for a log: `write` returns at once, and a thread passes the text to `sink`.

    When more than `max_waiting` characters wait, lines are dropped until all of these are written;
    then a line reports the number of dropped lines. `sink` may block; when it raises, the text is
    dropped.
    """

    def __init__(
        self, sink: Callable[[str], object], *, max_waiting: int, joins: bool = False
    ) -> None:
        """With `joins` all that waits is passed to `sink` together.

        Beside a busy event loop the thread runs every 5 ms only. Line by line it fell behind 1,200
        calls that were logged in 0.2 s.
        """
        self._sink = sink
        self._joins = joins
        self._max_waiting = max_waiting
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
            if self._size and self._size + len(text) > self._max_waiting:
                self._is_full = True
            if self._is_full:
                self._dropped += text.count("\n")
                return
            self._size += len(text)
            self._waiting.put(text)

    def flush(self) -> None:
        """No-op, since handlers flush after each line; `close` waits."""

    def close(self, within: float) -> bool:
        """Wait at most `within` seconds until all is written; True if it is."""
        self._waiting.put(None)
        self._thread.join(within)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while texts := self._next_texts():
            self._write(texts)
            if dropped := self._dropped_before_next(sum(map(len, texts))):
                self._write([f"… {dropped} log lines were dropped\n"], lines=dropped)

    def _next_texts(self) -> list[str]:
        """The next text, or all that wait; empty at the end."""
        texts = [self._waiting.get()]
        with suppress(Empty):
            while self._joins and texts[-1] is not None:
                texts.append(self._waiting.get_nowait())
        if texts[-1] is None:
            self._waiting.put(None)  # for the next time, when nothing else waits
        return [text for text in texts if text is not None]

    def _write(self, texts: list[str], *, lines: int | None = None) -> None:
        """Write texts together; each on its own if that fails."""
        text = "".join(texts)
        try:
            self._sink(text)
        except (OSError, ValueError):  # the reader is gone, or the text cannot be encoded
            if len(texts) > 1:
                for piece in texts:
                    self._write([piece])
                return
            with self._lock:
                self._dropped += text.count("\n") if lines is None else lines

    def _dropped_before_next(self, written: int) -> int:
        """The number of lines dropped at this point; 0 while earlier lines still wait."""
        with self._lock:
            self._size -= written
            if self._size:
                return 0
            self._is_full = False
            dropped, self._dropped = self._dropped, 0
            return dropped


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, also to a descriptor that was set non-blocking elsewhere."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()
