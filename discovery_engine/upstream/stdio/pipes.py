"""The pipes of a program: its output as byte streams, its input as a sink of lines.

asyncio creates such streams only for programs that it starts itself; here the reaper starts them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream
from anyio.lowlevel import checkpoint

_BROKEN = (ConnectionResetError, BrokenPipeError)
_CONGESTED = 64 * 1024  # bytes: the size of a pipe, and the limit above which asyncio pauses


class PipeReader(ByteReceiveStream):
    def __init__(
        self, reader: asyncio.StreamReader, transport: asyncio.BaseTransport | None = None
    ) -> None:
        self._reader = reader
        self._transport = transport

    @classmethod
    async def from_descriptor(cls, descriptor: int) -> PipeReader:
        """Open a stream that closes the descriptor."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        file = os.fdopen(descriptor, "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: protocol, file)
        return cls(reader, transport)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if data := await self._reader.read(max_bytes):
            return data
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        self._reader.set_exception(anyio.ClosedResourceError())
        if self._transport:
            self._transport.close()
        await checkpoint()


class PipeWriter:
    """A `LineSink` over a pipe. All lines of one turn of the event loop are one write."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._lines: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self.on_broken: Callable[[], None] = _ignore
        """Called once it is noticed that the other side reads no more."""

    @classmethod
    async def from_descriptor(cls, descriptor: int) -> PipeWriter:
        """Open a sink that closes the descriptor."""
        loop = asyncio.get_running_loop()
        file = os.fdopen(descriptor, "wb", buffering=0)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), file
        )
        return cls(asyncio.StreamWriter(transport, protocol, None, loop))

    @property
    def is_congested(self) -> bool:
        """True if more than a pipe holds waits to be written."""
        return self._writer.transport.get_write_buffer_size() > _CONGESTED

    def write(self, line: bytes) -> None:
        if not self._lines:
            self._loop.call_soon(self._flush)
        self._lines.append(line)

    async def drain(self) -> None:
        self._flush()
        with suppress(*_BROKEN):
            await self._writer.drain()

    async def aclose(self) -> None:
        """Close it once everything is written."""
        self._flush()
        self.on_broken = _ignore
        self._writer.close()
        await checkpoint()

    def abort(self) -> None:
        """Close it now: a process that never reads could keep the pipe open forever."""
        self.on_broken = _ignore
        transport = self._writer.transport
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        transport = self._writer.transport
        if lines and not transport.is_closing():
            # asyncio writes at once what the pipe accepts. Behind lines that wait it writes
            # nothing, and if the pipe is broken, neither.
            transport.write(b"".join(lines))
        if lines and transport.is_closing():
            self.on_broken()


def _ignore() -> None:
    """The default of `PipeWriter.on_broken`."""
