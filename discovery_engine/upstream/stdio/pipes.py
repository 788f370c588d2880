"""The pipes of a program: lines are written to its stdin, messages read from its stdout.

Invalid lines and unsolicited answers are counted and dropped. A program that writes many of them
is read slowly, so that calls to other servers are not delayed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

import anyio
from anyio.abc import ByteReceiveStream
from anyio.lowlevel import checkpoint

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.in_flight import PendingRequests
from discovery_engine.rpc.json_codec import (
    LINE_LIMIT,
    Framer,
    Garbage,
    Overlong,
    decode,
    decode_incrementally,
    edges,
    sniffed_id,
)
from discovery_engine.rpc.messages import (
    ErrorResponse,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    answered_id,
    as_message,
    fault_of,
    unreadable,
)
from discovery_engine.rpc.scheduling import LARGE, FairScheduler, Quota

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


_CHUNK = 64 * 1024  # bytes per turn of the event loop: the buffer size of asyncio for a pipe
_BANNERS = 20  # lines of a program that are no messages, of which one may end with its answer
_IN_ARRAY = b"(a message in an array)"  # a sample of it that is unexpected
_REQUESTS_PER_FAULT = 64  # requests that cannot be answered count as one fault

# Costs of data that no caller waits for; a dropped line costs 1.
_LINE = 1
_REQUEST = 2
_PASSED_ON = 4
_BYTES = 4096  # cost as much to read as a line

_FORWARDED = (
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/subscriptions/acknowledged",
    "notifications/tools/list_changed",
)

OnRequest: TypeAlias = Callable[[Request], bool]
"""Answers a request of the server; False if it does not."""
OnFault: TypeAlias = Callable[[str, int], None]
"""Called with a description of a fault and a count; at 100 the session is closed."""


class MessageReader:
    """An asynchronous iterator over the messages of a byte stream."""

    def __init__(
        self,
        source: ByteReceiveStream,
        pending: PendingRequests,
        scheduler: FairScheduler,
        *,
        on_end: Callable[[], None],
        on_request: OnRequest = lambda _request: True,
        on_fault: OnFault = lambda _reason, _times: None,
        limit: int = LINE_LIMIT,
    ) -> None:
        self._source = source
        self._pending = pending
        self._scheduler = scheduler
        self._on_end = on_end
        self._on_request = on_request
        self._on_fault = on_fault
        self._limit = limit
        self._framer = Framer(limit)
        self._lines: Iterator[bytes | Overlong] = iter(())
        self._array: Iterator[JSONObject] = iter(())  # messages that came in one line
        self._ended = False
        self.is_idle = False
        """True if all that the program has written so far was processed."""
        self._end = anyio.Event()
        self._is_answered = False  # whether the caller of the overlong line got an error
        self._quota = Quota(scheduler)
        self.garbage = Garbage()
        self._unanswered = 0

    @property
    def unfinished(self) -> str:
        """The beginning of the line that has not ended yet."""
        return self._framer.unfinished

    async def wait_ended(self) -> None:
        """Wait until everything that the program wrote was received."""
        await self._end.wait()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            while (line := next(self._array, None) or next(self._lines, None)) is not None:
                if self._quota.is_due:
                    await self._quota.pause_if_spent()
                if isinstance(line, Overlong):
                    message = self._overlong(line)
                elif isinstance(line, dict):
                    message = self._accepted(line, _IN_ARRAY)
                elif not line or line.isspace():
                    self._quota.spend(_LINE)
                    continue
                elif len(line) > LARGE:
                    message = await self._large_message(line)
                else:
                    message = self._message(line)
                if message is not None:
                    yield message
                    message = None  # thousands of tools, maybe, and the next may come in hours
            if self._ended:
                self._end.set()
                self._on_end()
                return
            await self._quota.pause_if_spent()
            await self._read()

    async def _read(self) -> None:
        self.is_idle = True
        try:
            chunk = await self._source.receive(_CHUNK)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended = True
            self._lines = self._framer.finish()
            return
        finally:
            self.is_idle = False
        self._quota.spend(_LINE + len(chunk) // _BYTES)
        self._lines = self._framer.feed(chunk)
        if len(chunk) == _CHUNK:  # more data is ready and would be read without yielding
            await checkpoint()

    def _message(self, line: bytes) -> Message | None:
        try:
            value = decode(line)
        except ValueError as error:
            return self._behind_banner(line) or self._unreadable(line, error)
        return self._accepted(value, line)

    def _behind_banner(self, line: bytes) -> Message | None:
        """Return the answer at the end of a line that begins with a banner or a prompt.

        Only in the first lines: programs that log their answers repeat them.
        """
        begin = line.find(b'{"') if self.garbage.count < _BANNERS else 0
        if begin > 0:
            with suppress(ValueError):
                message = as_message(decode(line[begin:]))
                if type(message) is Response and self._pending.is_waiting(message.id):
                    return message
        return None

    async def _large_message(self, line: bytes) -> Message | None:
        try:
            with self._pending.reading(sniffed_id(*edges(line))):
                value = await self._scheduler.run(decode_incrementally(line), size=len(line))
        except ValueError as error:
            return self._unreadable(line, error)
        return self._accepted(value, line)

    def _unreadable(self, line: bytes, error: ValueError) -> Message | None:
        self._drop(line, foreign=True)
        return self._error_answer(sniffed_id(*edges(line)), f"it cannot be read: {error}")

    def _accepted(self, value: JSONValue, line: bytes) -> Message | None:
        if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            self._array = (entry for entry in value if entry and isinstance(entry, dict))
            return None
        message = as_message(value)
        if type(message) is Response and self._pending.is_waiting(message.id):  # nearly always
            self._quota.reset()
            return message
        if message is None:
            self._drop(line, foreign=True)
            return self._error_answer(answered_id(value), fault_of(value))
        return message if self._is_forwarded(message, line) else None

    def _overlong(self, line: Overlong) -> Message | None:
        if line.head:
            self.garbage.add(line.head)
            self._is_answered = line.request_id is not None
        elif self._is_answered:
            return None
        reason = f"it is longer than {self._limit // (1024 * 1024)} MiB"
        return self._error_answer(line.request_id, reason)

    def _drop(self, line: bytes, *, foreign: bool = False) -> None:
        (self.garbage.add_foreign if foreign else self.garbage.add)(line)
        self._quota.spend(_LINE)

    def _error_answer(self, request_id: RequestId | None, reason: str) -> Message | None:
        """An error answer instead of one that cannot be read, if a caller waits for it."""
        is_ours = request_id is not None and self._is_pending(request_id)
        return unreadable(request_id, reason) if is_ours else None

    def _is_forwarded(self, message: Message, line: bytes) -> bool:
        match message:
            case Response(id_) | ErrorResponse(id_):
                is_ours = self._is_pending(id_)
                if not is_ours:
                    self._drop(line)
                return is_ours
            case Notification(method):
                is_forwarded = method in _FORWARDED
                self._quota.spend(_PASSED_ON if is_forwarded else _LINE)
                return is_forwarded
            case Request():
                self._answer(message, line)
                return False

    def _is_pending(self, request_id: RequestId) -> bool:
        if self._pending.expects(request_id):
            self._quota.reset()
            return True
        times = self._pending.unsolicited + self._pending.duplicates
        if times:
            self._on_fault(f"it sent {times} answers without a request", times)
        return False

    def _answer(self, request: Request, line: bytes) -> None:
        self._quota.spend(_REQUEST)
        if self._on_request(request):
            return
        self.garbage.add(line)
        self._unanswered += 1
        reason = f"it sent {self._unanswered} requests and did not read their answers"
        self._on_fault(reason, self._unanswered // _REQUESTS_PER_FAULT)
