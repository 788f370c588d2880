"""The stdio transport: one line is one message, and stdout carries nothing else."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from discovery_engine.engine.first_answer import EarlyStart
from discovery_engine.rpc.json_codec import Framer
from discovery_server.client_connection import MAX_LINE, ClientConnection, Line
from discovery_server.client_stream import LineStream
from discovery_server.descriptors import open_input, open_output

if TYPE_CHECKING:
    from discovery_server.gateway import Gateway

_LINES = 64  # of one turn of the event loop: some 2 ms at most, unless they are long
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

    `early` is what was read and answered before. `answered` is set after the first answer.
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
        self._input = open_input(stdin, self._on_read)
        self._output = open_output(stdout, self._on_written)
        self._stream = LineStream(self._output)
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
            self._answered.set()
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
