"""The stdio transport: one line is one message, and stdout carries nothing else.

It decides the era of a connection later than the SDK would. A client that probes with
`server/discover` may time out during a slow start and send `initialize` instead: then it is served
in the handshake era, whether or not its probe was answered.
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

_CHUNK = 1 << 18  # bytes of one read of stdin
_WRITE = 4096  # bytes that a writable pipe or socket accepts without blocking (PIPE_BUF)
_MAX_LINE = 64 << 20  # bytes; a longer line is dropped
_READ_AHEAD = 64  # messages
_HAS_POLL = hasattr(select, "poll")  # Windows has none; there a thread waits


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
    server: Server[Any], stdin: int, stdout: int, *, answered: anyio.Event | None = None
) -> None:
    """Serve one client over two descriptors, until it closes its side.

    `answered` is set after the first answer.
    """
    send, incoming = anyio.create_memory_object_stream[Item](_READ_AHEAD)
    async with incoming, open_task_group() as tasks:
        client = _ClientConnection(server, incoming, stdout, answered or anyio.Event())
        tasks.start_soon(_read, stdin, send, client.write)
        with suppress(BrokenPipeError):  # the client has closed its side
            await client.serve()
        tasks.cancel_scope.cancel()


class _ClientConnection:
    """Passes the client's messages to the SDK; the server runs once for each era that is tried."""

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
        """The id of a `server/discover` that may still be followed by `initialize`."""
        self._probe_answered = anyio.Event()
        self._write_lock = anyio.Lock()
        """Two tasks write: the server, and the reader, which refuses oversized messages."""

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
        """Pass messages on until the input ends or the era must be decided again."""
        async with to_server:
            while item := await self._next():
                request = _request(item)
                if request and request.method == "initialize" and self._probe is not None:
                    self._ahead.appendleft(item)
                    await self._probe_answered.wait()
                    self._probe = None
                    return
                if request and request.method == "server/discover":
                    if await self._is_superseded(request.id):
                        continue
                elif request:
                    self._probe = None
                await to_server.send(item)

    async def _is_superseded(self, probe: types.RequestId) -> bool:
        """Whether an `initialize` already waits behind the probe, which is then refused."""
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
        async with self._write_lock:
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
                # One step would parse it once for each kind of message in the union.
                value = pydantic_core.from_json(line)
                message = types.jsonrpc_message_adapter.validate_python(value, by_name=False)
            except ValueError as exc:
                await send.send(exc)
            else:
                await send.send(SessionMessage(message))


async def _lines(descriptor: int, max_length: int = _MAX_LINE) -> AsyncIterator[bytes]:
    """The lines that are not blank, in time linear in their length."""
    parts: list[bytes] = []
    size = 0
    while chunk := await _read_some(descriptor):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*parts, end]).strip()
            if line and size + len(end) <= max_length:
                yield line
            parts, size = [], 0
        size += len(rest)
        if size <= max_length:
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
    """Without waiting; a regular file is always ready, but epoll cannot watch it."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(0))
