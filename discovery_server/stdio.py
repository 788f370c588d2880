"""The stdio transport: one line is one message, and stdout carries nothing else.

It decides the era of a connection a little later than the SDK would. A client that probes with
`server/discover` may grow tired of waiting for a slow start and send `initialize` after all: then
it is served the handshake, whether or not its probe has been answered.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.to_thread
import mcp_types as types
import pydantic_core
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from discovery_engine._util.tasks import open_task_group
from discovery_server.message_size import refusal

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

Item: TypeAlias = SessionMessage | Exception

_CHUNK = 1 << 18  # bytes asked of stdin at once
_WRITE = 4096  # bytes that a pipe or socket which says it is writable takes without blocking
_LONGEST_LINE = 64 << 20  # bytes; what is longer is dropped
_AHEAD = 64  # messages read ahead of the one being handed on
_HAS_POLL = hasattr(select, "poll")  # not on Windows, where a thread does the waiting


@contextmanager
def own_standard_streams() -> Iterator[tuple[int, int]]:
    """Yield descriptors of stdin and stdout that are ours alone.

    Meanwhile the usual ones lead elsewhere: nothing can be read from 0, and what a library or a
    child writes to 1 goes to stderr instead of between two messages.
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
    server: Server[Any], stdin: int, stdout: int, *, answered: anyio.Event | None = None
) -> None:
    """Serve one client over two descriptors, until it closes its side.

    `answered` is set when the first answer is out.
    """
    send, incoming = anyio.create_memory_object_stream[Item](_AHEAD)
    async with incoming, open_task_group() as tasks:
        front = _Front(server, incoming, stdout, answered or anyio.Event())
        tasks.start_soon(_read, stdin, send, front.write)
        with suppress(BrokenPipeError):  # the client is gone, which is how this ends
            await front.serve()
        tasks.cancel_scope.cancel()


class _Front:
    """Hands the client's messages to the SDK, one run of the server for each era tried."""

    def __init__(
        self,
        server: Server[Any],
        incoming: MemoryObjectReceiveStream[Item],
        stdout: int,
        answered: anyio.Event,
    ) -> None:
        self._server = server
        self._incoming = incoming
        self._stdout = stdout
        self._answered = answered
        self._ahead: deque[Item] = deque()
        self._probe: types.RequestId | None = None
        """The id of the `server/discover` that nothing but `initialize` has followed."""
        self._probe_answered = anyio.Event()
        self._turn = anyio.Lock()
        """Of whoever writes: the server, or the reader, which refuses what is not handed on."""

    async def serve(self) -> None:
        while opening := await self._next():
            self._ahead.appendleft(opening)
            await self._serve_era()

    async def _serve_era(self) -> None:
        to_server, read = anyio.create_memory_object_stream[Item]()
        write, from_server = anyio.create_memory_object_stream[SessionMessage]()
        async with open_task_group() as tasks:
            tasks.start_soon(self._feed, to_server)
            tasks.start_soon(self._drain, from_server)
            await self._server.run(read, write, self._server.create_initialization_options())

    async def _feed(self, to_server: MemoryObjectSendStream[Item]) -> None:
        """Hand messages on until the input ends or the era must be decided anew."""
        async with to_server:
            while item := await self._next():
                request = _request(item)
                if request and request.method == "initialize" and self._probe is not None:
                    self._ahead.appendleft(item)
                    await self._probe_answered.wait()
                    self._probe = None
                    return
                if request and request.method == "server/discover":
                    if await self._is_overtaken(request.id):
                        continue
                elif request:
                    self._probe = None
                await to_server.send(item)

    async def _is_overtaken(self, probe: types.RequestId) -> bool:
        """Whether an `initialize` already waits behind a probe, which is then turned down."""
        with suppress(anyio.WouldBlock, anyio.EndOfStream):
            while True:
                self._ahead.append(self._incoming.receive_nowait())
        waiting = filter(None, map(_request, self._ahead))
        if not any(request.method == "initialize" for request in waiting):
            self._probe, self._probe_answered = probe, anyio.Event()
            return False
        error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")
        await self.write(types.JSONRPCError(jsonrpc="2.0", id=probe, error=error))
        return True

    async def _drain(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for message in from_server:
                await self.write(message.message)
                if self._probe is not None and getattr(message.message, "id", None) == self._probe:
                    self._probe_answered.set()

    async def write(self, message: types.JSONRPCMessage) -> None:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._turn:
            await _write(self._stdout, text.encode() + b"\n")
        self._answered.set()

    async def _next(self) -> Item | None:
        """The next message; None at the end of the input."""
        if self._ahead:
            return self._ahead.popleft()
        try:
            return await self._incoming.receive()
        except anyio.EndOfStream:
            return None


def _request(item: Item) -> types.JSONRPCRequest | None:
    if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCRequest):
        return item.message
    return None


async def _read(
    descriptor: int,
    send: MemoryObjectSendStream[Item],
    refuse: Callable[[types.JSONRPCError], Awaitable[None]],
) -> None:
    async with send:
        async for line in _lines(descriptor):
            if error := refusal(line):
                if error.id is not None:
                    await refuse(error)
                continue
            try:
                # In one step it would be parsed once for each kind of message that it may be.
                value = pydantic_core.from_json(line)
                message = types.jsonrpc_message_adapter.validate_python(value, by_name=False)
            except ValueError as exc:
                await send.send(exc)
            else:
                await send.send(SessionMessage(message))


async def _lines(descriptor: int, longest: int = _LONGEST_LINE) -> AsyncIterator[bytes]:
    """The lines that are not blank; each byte is looked at once, however long its line."""
    parts: list[bytes] = []
    size = 0
    while chunk := await _read_some(descriptor):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*parts, end]).strip()
            if line and size + len(end) <= longest:
                yield line
            parts, size = [], 0
        size += len(rest)
        if size <= longest:
            parts.append(rest)


async def _read_some(descriptor: int) -> bytes:
    if not _HAS_POLL:
        return await anyio.to_thread.run_sync(os.read, descriptor, _CHUNK, abandon_on_cancel=True)
    if not _is_ready(descriptor, select.POLLIN):
        await anyio.wait_readable(descriptor)
    return os.read(descriptor, _CHUNK)


async def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        if not _HAS_POLL:
            written = await anyio.to_thread.run_sync(os.write, descriptor, left)
        else:
            if not _is_ready(descriptor, select.POLLOUT):
                await anyio.wait_writable(descriptor)
            written = os.write(descriptor, left[:_WRITE])
        left = left[written:]


def _is_ready(descriptor: int, event: int) -> bool:
    """Without waiting. Files, unlike pipes, are always ready and cannot be waited for."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(0))
