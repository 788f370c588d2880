"""Messages over the pipes of a child process.

Reading and writing happen in the task that wants the message: no relay tasks, no queues, and
the server's pace is the only buffer. The SDK's own reader takes quadratic time on long lines
and dies of one invalid byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Self

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from mcp import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
)

from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.tools import ServerName
from discovery_engine.upstream.framing import (
    LINE_LIMIT,
    Framer,
    Garbage,
    Overlong,
    decode,
    edges,
    encode,
    sniffed_id,
)
from discovery_engine.upstream.link import Link, strange_greeting
from discovery_engine.upstream.messages import as_json, as_message, unreadable
from discovery_engine.upstream.process import Child, running, start_program
from discovery_engine.upstream.program import child_environment, find_program
from discovery_engine.upstream.reaper import Reaper
from discovery_engine.upstream.streams import Stream

_CHUNK = 64 * 1024  # bytes; what asyncio buffers of a pipe
_MAX_UNANSWERED = 64  # requests of a server that wait for our answer; more are dropped


class MessageReader(Stream):
    """The messages of a byte stream; what is not a message is counted and left out."""

    def __init__(
        self, source: ByteReceiveStream, *, on_end: Callable[[], None], limit: int = LINE_LIMIT
    ) -> None:
        self._source = source
        self._on_end = on_end
        self._limit = limit
        self._framer = Framer(limit)
        self._waiting: deque[SessionMessage | Exception] = deque()
        self._ended = False
        self.garbage = Garbage()
        self.unanswered = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        while not self._waiting:
            if self._ended:
                self._on_end()
                raise anyio.EndOfStream
            await self._read()
        return self._waiting.popleft()

    async def _read(self) -> None:
        try:
            lines = self._framer.feed(await self._source.receive(_CHUNK))
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended = True
            lines = self._framer.finish()
        for line in lines:
            message = self._overlong(line) if isinstance(line, Overlong) else self._message(line)
            if message is not None:
                self._waiting.append(SessionMessage(message))

    def _overlong(self, line: Overlong) -> JSONRPCMessage | None:
        if line.head:
            self.garbage.add(line.head)
        reason = f"its answer is longer than {self._limit // (1024 * 1024)} MiB"
        return unreadable(line.request_id, reason)

    def _message(self, line: bytes) -> JSONRPCMessage | None:
        if not line.strip():
            return None
        try:
            message = as_message(decode(line))
        except ValueError as error:
            self.garbage.add(line)
            return unreadable(sniffed_id(*edges(line)), f"its answer cannot be read: {error}")
        if message is None or self._is_too_much(message):
            self.garbage.add(line)
            return None
        return message

    def _is_too_much(self, message: JSONRPCMessage) -> bool:
        if not isinstance(message, JSONRPCRequest):
            return False
        self.unanswered += 1
        return self.unanswered > _MAX_UNANSWERED


class MessageWriter(Stream):
    """Writes one message at a time, so that a server that does not read holds back its callers."""

    def __init__(
        self, sink: ByteSendStream, *, on_answer: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        self._sink = sink
        self._on_answer = on_answer
        self._on_end = on_end
        self._turn = anyio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        line = encode(as_json(item.message))
        async with self._turn:
            await self._write(line)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._on_answer()

    async def _write(self, line: bytes) -> None:
        try:
            await self._sink.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._on_end()  # the pipe may be seen to break before its other end is seen to close
            raise


class StdioLink(Link):
    carrier = "stdio"

    def __init__(self, server: ServerName, child: Child, on_lost: Callable[[], None]) -> None:
        super().__init__(server)
        self.child = child
        self._on_lost = on_lost
        self.reader = MessageReader(child.stdout, on_end=self._lose)

    def dispatcher(self) -> JSONRPCDispatcher:
        writer = MessageWriter(self.child.stdin, on_answer=self._count_answer, on_end=self._lose)
        return JSONRPCDispatcher(self.reader, writer)

    @property
    def stderr(self) -> str:
        return self.child.errors.tail

    async def failure(self, error: Exception) -> UnavailableError:
        if not self.is_lost:
            return strange_greeting(self.server, error, stderr=self.stderr)
        reason = f"it {await self.child.exit_reason()} before the handshake was done"
        return UnavailableError(self.server, FailureKind.EXITED, reason, stderr=self.stderr)

    async def end(self) -> str:
        return f"it {await self.child.exit_reason()}"

    async def loss(self, error: MCPError) -> str | None:
        return await self.end() if self.is_lost and error.code == CONNECTION_CLOSED else None

    def refusal(self, error: MCPError) -> None:  # noqa: ARG002 - a pipe has nobody who refuses
        return None

    def wants_new_session(self, error: MCPError) -> bool:  # noqa: ARG002 - a pipe is the session
        return False

    def _lose(self) -> None:
        self.is_lost = True
        self._on_lost()

    def _count_answer(self) -> None:
        self.reader.unanswered -= 1


@asynccontextmanager
async def open_stdio_link(
    server: ServerName,
    stdio: StdioTransport,
    environ: Mapping[str, str],
    reaper: Reaper,
    *,
    on_lost: Callable[[], None],
) -> AsyncIterator[StdioLink]:
    """Start the program; `stdio` has its references resolved.

    Raises:
        UnavailableError: If there is no such program, or it cannot be started.
    """
    env = child_environment(environ, stdio.env)
    command = [find_program(server, stdio, env), *stdio.args]
    try:
        await reaper.ready()
        process = await start_program(command, env=env, cwd=stdio.cwd)
    except PermissionError as error:
        reason = f"{command[0]!r} may not be started: {error.strerror}"
        raise UnavailableError(server, FailureKind.PERMISSION, reason) from error
    except (OSError, ValueError) as error:
        reason = f"{command[0]!r} cannot be started: {error}"
        raise UnavailableError(server, FailureKind.OTHER, reason) from error
    async with reaper.watching(process.pid), running(process) as child:
        yield StdioLink(server, child, on_lost)
