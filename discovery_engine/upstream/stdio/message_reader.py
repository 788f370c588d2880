"""The messages in what a program writes: one at a time, and only those that concern us.

What is not a message, or answers what nobody asked, is counted and left out. A program that
writes much of that is read slowly, so that its neighbours do not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import anyio
from anyio.abc import ByteReceiveStream
from anyio.lowlevel import checkpoint
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from discovery_engine._util.json import JSONValue
from discovery_engine.upstream.stdio.framing import LINE_LIMIT, Framer, Garbage, Overlong
from discovery_engine.upstream.stdio.request_ids import RequestIds
from discovery_engine.upstream.transport import ReadingStream
from discovery_engine.upstream.wire.json_codec import (
    decode,
    decode_incrementally,
    edges,
    sniffed_id,
)
from discovery_engine.upstream.wire.messages import (
    STRANGE,
    answered_id,
    as_message,
    is_digestible,
    unreadable,
)
from discovery_engine.upstream.wire.scheduling import LARGE, FairScheduler, Quota

_CHUNK = 64 * 1024  # bytes read in one turn of the loop; what asyncio buffers of a pipe
_BAD_MANNERS = 64  # requests that it lets us not answer, for one fault

# What things cost that nobody waits for; a line that is left out costs 1.
_LINE = 1
_REQUEST = 2
_PASSED_ON = 4
_BYTES = 4096  # that cost as much to read as a line does

_HEARD = (
    "notifications/cancelled",
    "notifications/progress",
    "notifications/subscriptions/acknowledged",
    "notifications/tools/list_changed",
)

OnRequest: TypeAlias = Callable[[JSONRPCRequest], bool]
"""Answers what a server asks of us; False if it leaves that."""
OnFault: TypeAlias = Callable[[str, int], None]
"""Told what a server does wrong, in words, and how bad it is by now: 100 is too much."""


class MessageReader(ReadingStream):
    """The messages of a byte stream."""

    def __init__(
        self,
        source: ByteReceiveStream,
        ids: RequestIds,
        scheduler: FairScheduler,
        *,
        on_end: Callable[[], None],
        on_request: OnRequest = lambda _request: True,
        on_fault: OnFault = lambda _reason, _times: None,
        limit: int = LINE_LIMIT,
    ) -> None:
        self._source = source
        self._ids = ids
        self._scheduler = scheduler
        self._on_end = on_end
        self._on_request = on_request
        self._on_fault = on_fault
        self._limit = limit
        self._framer = Framer(limit)
        self._lines: Iterator[bytes | Overlong] = iter(())
        self._ended = False
        self._is_told = False  # whose answer the line is that is being dropped
        self._quota = Quota(scheduler)
        self.garbage = Garbage()
        self._unanswered = 0

    @property
    def unfinished(self) -> str:
        """How the line begins that has not ended yet."""
        return self._framer.unfinished

    async def receive(self) -> SessionMessage | Exception:
        while True:
            for line in self._lines:
                await self._quota.pause_if_spent()
                message = await self._message(line)
                if message is not None:
                    return SessionMessage(message)
            if self._ended:
                self._on_end()
                raise anyio.EndOfStream
            await self._quota.pause_if_spent()
            await self._read()

    async def _read(self) -> None:
        try:
            chunk = await self._source.receive(_CHUNK)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended = True
            self._lines = self._framer.finish()
            return
        self._quota.spend(_LINE + len(chunk) // _BYTES)
        self._lines = self._framer.feed(chunk)
        if len(chunk) == _CHUNK:  # there is more, and it would be read without a pause
            await checkpoint()

    async def _message(self, line: bytes | Overlong) -> JSONRPCMessage | None:
        if isinstance(line, Overlong):
            return self._overlong(line)
        if not line.strip():
            self._quota.spend(_LINE)
            return None
        try:
            value = await self._decoded(line)
        except ValueError as error:
            self._left_out(line, foreign=True)
            return self._instead(sniffed_id(*edges(line)), f"its answer cannot be read: {error}")
        message = as_message(value)
        if message is None:
            self._left_out(line, foreign=True)
            return self._instead(answered_id(value), STRANGE)
        return message if self._concerns_us(message, line) else None

    async def _decoded(self, line: bytes) -> JSONValue:
        if len(line) <= LARGE:
            return decode(line)
        return await self._scheduler.run(decode_incrementally(line), size=len(line))

    def _overlong(self, line: Overlong) -> JSONRPCMessage | None:
        if line.head:
            self.garbage.add(line.head)
            self._is_told = line.request_id is not None
        elif self._is_told:
            return None
        reason = f"its answer is longer than {self._limit // (1024 * 1024)} MiB"
        return self._instead(line.request_id, reason)

    def _left_out(self, line: bytes, *, foreign: bool = False) -> None:
        (self.garbage.add_foreign if foreign else self.garbage.add)(line)
        self._quota.spend(_LINE)

    def _instead(self, request_id: RequestId | None, reason: str) -> JSONRPCMessage | None:
        """An answer in place of one that cannot be read, if somebody waits for it."""
        is_ours = request_id is not None and self._is_waited_for(request_id)
        return unreadable(request_id, reason) if is_ours else None

    def _concerns_us(self, message: JSONRPCMessage, line: bytes) -> bool:
        match message:
            case JSONRPCNotification(method=method):
                is_heard = method in _HEARD and is_digestible(message)
                self._quota.spend(_PASSED_ON if is_heard else _LINE)
                return is_heard
            case JSONRPCRequest():
                self._answer(message, line)
                return False
            case JSONRPCResponse(id=id_) | JSONRPCError(id=id_):
                is_ours = id_ is not None and self._is_waited_for(id_)
                if not is_ours:
                    self._left_out(line)
                return is_ours

    def _is_waited_for(self, request_id: RequestId) -> bool:
        if self._ids.settle(request_id):
            self._quota.reset()
            return True
        times = self._ids.unsolicited + self._ids.duplicates
        if times:
            self._on_fault(f"it sent {times} answers that nobody waited for", times)
        return False

    def _answer(self, request: JSONRPCRequest, line: bytes) -> None:
        self._quota.spend(_REQUEST)
        if self._on_request(request):
            return
        self.garbage.add(line)
        self._unanswered += 1
        reason = f"it asked {self._unanswered} more things than it lets us answer"
        self._on_fault(reason, self._unanswered // _BAD_MANNERS)
