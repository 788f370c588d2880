"""A stderr for a serving process that never blocks its writers.

Besides the log, warnings, tracebacks of threads and destructors, and the address of the server are
written to it. All of them use `sys.stderr`, so that is replaced.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TextIO

from discovery_server.log_queue import LogQueue, write_all

_MAX_WAITING = 2000  # lines that may wait for a reader
_LAST_WAIT = 1.0  # seconds; clients kill a server two seconds after they closed its stdin


@contextmanager
def unblocked() -> Iterator[None]:
    """A block in which writing to `sys.stderr` returns at once, even if it is not read.

    At the end the reader has a second for the text that still waits.
    """
    stream = sys.stderr
    if not _can_block(stream):
        yield
        return
    descriptor, encoding = stream.fileno(), stream.encoding
    stream.flush()
    queue = LogQueue(
        lambda text: write_all(descriptor, text.encode(encoding, "backslashreplace")), _MAX_WAITING
    )
    try:
        with redirect_stderr(_Unblocked(queue, stream)):
            yield
    finally:
        queue.close_within(_LAST_WAIT)


def _can_block(stream: TextIO) -> bool:
    if isinstance(stream, _Unblocked):
        return False
    try:
        stream.fileno()
    except (AttributeError, OSError):  # a stream in memory
        return False
    # A Windows console takes text; it would decode bytes with an old code page.
    return not (sys.platform == "win32" and stream.isatty())


class _Unblocked(io.TextIOBase):
    def __init__(self, queue: LogQueue, stream: TextIO) -> None:
        self._queue = queue
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._queue.put(text)
        return len(text)
