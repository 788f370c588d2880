"""The stderr of a serving process, which never blocks who writes to it.

Not only the log is written there: warnings, tracebacks of threads and destructors, the address of
the server. All of it passes `sys.stderr`, so that is what is exchanged.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TextIO

from discovery_server.line_writer import LineWriter, write_all

_MOST = 256 * 1024  # characters that wait for a reader, some 2,000 lines
_LAST_WAIT = 1.0  # seconds; clients kill a server two seconds after they closed its stdin


@contextmanager
def unblocked() -> Iterator[None]:
    """A block in which writing to `sys.stderr` returns at once, whether or not anybody reads it.

    At the end a reader has a second to take what waits.
    """
    stream = sys.stderr
    if not _can_block(stream):
        yield
        return
    descriptor, encoding, errors = stream.fileno(), stream.encoding, stream.errors or "strict"
    stream.flush()
    writer = LineWriter(
        lambda text: write_all(descriptor, text.encode(encoding, errors)), most=_MOST
    )
    try:
        with redirect_stderr(_Unblocked(writer, stream)):
            yield
    finally:
        writer.close(_LAST_WAIT)


def _can_block(stream: TextIO) -> bool:
    if isinstance(stream, _Unblocked):
        return False
    try:
        stream.fileno()
    except (AttributeError, OSError):  # in memory
        return False
    # A console there takes text; bytes it would take for those of an old code page.
    return not (sys.platform == "win32" and stream.isatty())


class _Unblocked(io.TextIOBase):
    def __init__(self, writer: LineWriter, stream: TextIO) -> None:
        self._writer = writer
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
        self._writer.write(text)
        return len(text)
