"""The stdio transport: one line is one message, and stdout carries nothing else.

The event loop never waits for stdin and stdout. They may share their file description with a
terminal or another process, so they are not made non-blocking: they are used only while ready.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.engine.first_answer import EarlyStart
from discovery_engine.rpc.json_codec import Framer
from discovery_server.client_connection import MAX_LINE, ClientConnection, Line
from discovery_server.client_messages import ClientLines

if TYPE_CHECKING:
    from discovery_server.gateway import Gateway

_CHUNK = 1 << 18  # bytes of one read
_PIECE = 4096  # bytes that a writable pipe or socket accepts without blocking (PIPE_BUF)
_TURN = 1 << 18  # bytes written before other tasks run
_CONGESTED = 1 << 20  # bytes that wait to be written when senders should wait
_HAS_POLL = hasattr(select, "poll")  # Windows has none; there a thread waits


class WatchedInput:
    """Reads when the event loop reports that there is something to read.

    All that it reads is passed to a callback; the last piece is empty.
    """

    def __init__(self, descriptor: int, on_read: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._on_read = on_read
        self._loop = asyncio.get_running_loop()
        self._is_watched = False
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        """Always ready; epoll refuses it, and kqueue does not report its end."""
        self._next_read: asyncio.Handle | None = None
        """The scheduled next read of a file."""

    def resume(self) -> None:
        """Read on; no-op if it is not paused. An input is paused at first."""
        if self._is_watched or self._next_read:
            return
        if not self._is_file:
            try:
                self._loop.add_reader(self._descriptor, self._read)
                self._is_watched = True
            except OSError:  # a device like /dev/null, which is always ready, too
                self._is_file = True
        if self._is_file:
            self._next_read = self._loop.call_soon(self._read_file)

    def pause(self) -> None:
        """Read no more until `resume`; also called at the end."""
        if self._is_watched:
            self._loop.remove_reader(self._descriptor)
            self._is_watched = False
        if self._next_read:
            self._next_read.cancel()
            self._next_read = None

    def _read(self) -> None:
        try:
            chunk = _read_some(self._descriptor)
        except BlockingIOError:  # another process made it non-blocking, and has read first
            return
        self._on_read(chunk)

    def _read_file(self) -> None:
        self._next_read = self._loop.call_soon(self._read_file)
        self._read()


class ThreadInput:
    """A `WatchedInput` that reads in a thread, where no event loop can watch a descriptor."""

    def __init__(self, descriptor: int, on_read: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._on_read = on_read
        self._is_paused = True
        self._read: bytes | None = None
        """The bytes that were read while it was paused; None if nothing was."""
        self._reading: asyncio.Task[None] | None = None

    def resume(self) -> None:
        self._is_paused = False
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_one())

    def pause(self) -> None:
        self._is_paused = True

    async def _read_one(self) -> None:
        if self._read is None:
            self._read = await anyio.to_thread.run_sync(
                _read_some, self._descriptor, abandon_on_cancel=True
            )
        self._reading = None
        chunk = self._read
        if not self._is_paused:
            self._read = None
            self._on_read(chunk)
            if not self._is_paused:
                self.resume()


class Output:
    """A `LineSink`: the lines of one turn of the event loop are written together."""

    def __init__(self, descriptor: int, on_change: Callable[[], None]) -> None:
        """`on_change` is called when it is congested no more, has written all, or is closed."""
        self._descriptor = descriptor
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._lines: list[bytes] = []
        self._data = memoryview(b"")
        """The bytes that are being written; the lines come after them."""
        self._size = 0
        self._is_writing = False
        self._is_watched = False
        self._changed: asyncio.Event | None = None
        """The event that a caller waits for."""
        self.has_written = False
        """True if at least one line was written to its end."""
        self.is_closed = False
        """True if the other side reads no more."""

    @property
    def is_congested(self) -> bool:
        return self._size > _CONGESTED

    def write(self, line: bytes) -> None:
        if self.is_closed:
            return
        self._lines.append(line)
        self._size += len(line)
        if not self._is_writing:
            self._is_writing = True
            self._start()

    async def drain(self) -> None:
        while self.is_congested:
            await self._wait_for_change()

    async def flush(self) -> None:
        """Wait until all is written, or it is closed."""
        while self._size:
            await self._wait_for_change()

    def close(self) -> None:
        """Drop what is not written yet; no-op if it is closed."""
        self._stop_watching()
        self._lines.clear()
        self._data, self._size = memoryview(b""), 0
        if not self.is_closed:
            self.is_closed = True
            self._report_change()

    def _start(self) -> None:
        self._loop.call_soon(self._write_on)

    def _write_on(self) -> None:
        for _ in range(_TURN // _PIECE):
            if not self._next_data():
                return
            if not self._write_piece():
                return
        self._watch()  # other tasks run first

    def _write_piece(self) -> bool:
        """Write a piece; return False if the descriptor is watched, or closed, instead."""
        if not _is_writable(self._descriptor):
            self._watch()
            return False
        try:
            count = os.write(self._descriptor, self._data[:_PIECE])
        except BlockingIOError:  # another process made it non-blocking
            self._watch()
            return False
        except OSError:  # the reader is gone
            self.close()
            return False
        self._advance(count)
        return True

    def _next_data(self) -> bool:
        """Take up the next data to write; return False, and end writing, if there is none."""
        if self._data:
            return True
        if self._lines:
            self._data = memoryview(b"".join(self._lines))
            self._lines.clear()
            return True
        self._is_writing = False
        self._stop_watching()
        return False

    def _advance(self, size: int) -> None:
        was_congested = self.is_congested
        self._data = self._data[size:]
        self._size -= size
        is_first = not self.has_written and not self._data
        self.has_written = self.has_written or is_first
        if is_first or not self._size or was_congested != self.is_congested:
            self._report_change()

    def _report_change(self) -> None:
        if self._changed:
            self._changed.set()
            self._changed = None
        self._on_change()

    async def _wait_for_change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    def _watch(self) -> None:
        if not self._is_watched:
            try:
                self._loop.add_writer(self._descriptor, self._write_on)
                self._is_watched = True
            except OSError:  # a file, which is always ready
                self._loop.call_soon(self._write_on)

    def _stop_watching(self) -> None:
        if self._is_watched:
            self._loop.remove_writer(self._descriptor)
            self._is_watched = False


class ThreadOutput(Output):
    """Writes in a thread, where no event loop can watch a descriptor."""

    def _start(self) -> None:
        self._writing = self._loop.create_task(self._write_in_thread())

    async def _write_in_thread(self) -> None:
        while self._next_data():
            try:
                count = await anyio.to_thread.run_sync(
                    os.write, self._descriptor, self._data, abandon_on_cancel=True
                )
            except OSError:  # the reader is gone
                self.close()
                return
            self._advance(count)


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        raise
    except OSError:  # for instance a terminal that was closed
        return b""


def _is_writable(descriptor: int) -> bool:
    """Without waiting; a regular file is always ready."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


_LINES = 64  # of one turn of the event loop: some 2 ms at most, unless they are long
_NEXT_ANSWER = 1.0  # seconds at most to the answer after one from memory, before all else is loaded
_LAST_WAIT = 1.0  # seconds for the last answers; clients kill a server 2 s after they closed stdin


@contextmanager
def own_standard_streams() -> Iterator[tuple[int, int]]:
    """Yield private descriptors of stdin and stdout.

    Meanwhile descriptor 0 is empty and descriptor 1 is stderr, so that output of a library or a
    child process cannot end up between two messages.
    """
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield stdin, stdout
    finally:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for descriptor in (nothing, stdin, stdout):
            os.close(descriptor)


async def serve(
    gateway: Gateway,
    stdin: int,
    stdout: int,
    *,
    early: EarlyStart | None = None,
    answered: anyio.Event | None = None,
) -> None:
    """Serve one client over two descriptors, until it closes its side.

    `early` is what was read and answered before. `answered` is set after the first answer, or the
    one after `early`, for which nothing else is loaded within a second.
    """
    session = _StdioSession(gateway, stdin, stdout, answered or anyio.Event())
    try:
        await session.run(early or EarlyStart())
    finally:
        await session.close()


class _StdioSession:
    """Passes lines to the connection, and pauses the input while it is busy."""

    def __init__(self, gateway: Gateway, stdin: int, stdout: int, answered: anyio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._answered = answered
        kind: type[WatchedInput | ThreadInput] = WatchedInput if _HAS_POLL else ThreadInput
        self._input = kind(stdin, self._on_read)
        self._output = (Output if _HAS_POLL else ThreadOutput)(stdout, self._on_written)
        self._stream = ClientLines(self._output)
        self._connection = ClientConnection(gateway, on_end=self._process_later)
        self._connection.standalone = self._stream
        self._framer = Framer(MAX_LINE)
        self._lines: deque[Line] = deque()
        self._next_turn: asyncio.Handle | None = None
        self._is_ended = False
        """True if the input has ended."""
        self._over = asyncio.Event()

    async def run(self, early: EarlyStart) -> None:
        if early.is_answered:
            self._connection.resume(early.received)
            self._loop.call_later(_NEXT_ANSWER, self._answered.set)
        elif early.received:
            self._on_read(early.received)
        self._input.resume()
        await self._over.wait()

    async def close(self) -> None:
        self._over.set()
        self._input.pause()
        self._lines.clear()
        if self._next_turn:
            self._next_turn.cancel()
        with anyio.CancelScope(shield=True):
            await self._connection.close()
            with anyio.move_on_after(_LAST_WAIT):
                await self._output.flush()
            self._output.close()

    def _on_read(self, chunk: bytes) -> None:
        if chunk:
            self._lines.extend(self._framer.feed(chunk))
        else:
            self._is_ended = True
            self._lines.extend(self._framer.finish())
        if self._next_turn is None:
            self._process()

    def _on_written(self) -> None:
        if self._output.is_closed:
            self._over.set()
        if self._output.has_written:
            self._answered.set()
        self._process_later()

    def _process_later(self) -> None:
        if self._lines and self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._process)

    @property
    def _is_busy(self) -> bool:
        """True if the next line should wait: too much is unanswered, or answers are not read."""
        return self._output.is_congested or self._connection.is_busy

    def _process(self) -> None:
        """Process lines until too many are unanswered, or others should have a turn."""
        self._next_turn = None
        for _ in range(_LINES):
            if not self._lines or self._is_busy:
                break
            line = self._lines.popleft()
            self._connection.receive(line, self._stream, self._lines)
        is_busy = self._is_busy
        if self._is_ended and (is_busy or not self._lines):
            self._over.set()
        elif self._is_ended or self._lines:
            self._input.pause()
        else:
            self._input.resume()
        if not is_busy:
            self._process_later()
