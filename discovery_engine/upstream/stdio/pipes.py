"""The pipes of a program as byte streams.

asyncio creates such streams only for programs that it starts itself; here the reaper starts them.
"""

from __future__ import annotations

import asyncio
import os

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint, checkpoint_if_cancelled

_BROKEN = (ConnectionResetError, BrokenPipeError)


class PipeReader(ByteReceiveStream):
    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
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
        self._transport.close()
        await checkpoint()


class PipeWriter(ByteSendStream):
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._is_closed = False

    @classmethod
    async def from_descriptor(cls, descriptor: int) -> PipeWriter:
        """Open a stream that closes the descriptor."""
        loop = asyncio.get_running_loop()
        file = os.fdopen(descriptor, "wb", buffering=0)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), file
        )
        return cls(asyncio.StreamWriter(transport, protocol, None, loop))

    async def send(self, item: bytes) -> None:
        await checkpoint_if_cancelled()
        try:
            self._writer.write(item)
            await self._writer.drain()
        except _BROKEN as error:
            if self._is_closed:
                raise anyio.ClosedResourceError from error
            raise anyio.BrokenResourceError from error
        await cancel_shielded_checkpoint()

    async def aclose(self) -> None:
        self._is_closed = True
        self._writer.close()
        await checkpoint()
