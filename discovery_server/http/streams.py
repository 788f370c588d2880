"""The streams that a client reads: the answer to a POST, and the unsolicited messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from discovery_engine._util.tasks import Promise
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.rpc.messages import RpcError, error_answer
from discovery_server.http.asgi import JSON, respond, start

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.rpc.messages import RequestId
    from discovery_server.http.asgi import Header, Send
    from discovery_server.http.request import Accepted

PING_INTERVAL = 15.0  # seconds; proxies close a connection that is silent for 30 or 60
_CONGESTED = 1 << 20  # bytes that wait to be sent when senders should wait
_MOST_UNSENT = 8 << 20  # bytes; a stream of unsolicited messages with more is closed
_CANCELLED = -32800  # in place of an answer that this era requires; as the SDK of the protocol
_BATCH = 100  # messages that wait to be passed to another gateway when senders should wait
_BATCH_SIZE = 64 << 10  # bytes of them
_OK = 200

_EVENTS: list[Header] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_PING = b": ping\n\n"


class EventStream:
    """A `ClientStream` whose messages are events; it is open until it is closed."""

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._size = 0
        self._is_silent = False
        self.is_closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Event | None = None

    @property
    def is_congested(self) -> bool:
        return self._size > _CONGESTED

    def write(self, message: JSONObject) -> None:
        if self.is_closed:
            return
        self._append(_event(encode_finite(message)))
        if self._size > _MOST_UNSENT:
            self.close()

    async def drain(self) -> None:
        while self.is_congested and not self.is_closed:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    def begin(self) -> None:
        """No-op."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """No-op."""

    def close(self) -> None:
        """Write nothing more; what waits to be sent is dropped."""
        self.is_closed = True
        self._messages.clear()
        self._sent()
        self._wake()

    def ping(self) -> None:
        """End a silence that has lasted since the last call; called every `PING_INTERVAL`."""
        if self._is_silent:
            self._append(_PING)
        self._is_silent = True

    async def respond(self, send: Send, *headers: Header) -> None:
        """Send the messages until it is closed."""
        await start(send, _OK, [*_EVENTS, *headers])
        while not self.is_closed:
            if self._messages:
                await self._send_events(send, is_last=False)
            else:
                await self._wait()
        await send({"type": "http.response.body", "body": b""})

    async def _send_events(self, send: Send, *, is_last: bool) -> None:
        body = b"".join(self._messages)
        self._messages.clear()
        await send({"type": "http.response.body", "body": body, "more_body": not is_last})
        self._sent()

    def _append(self, message: bytes) -> None:
        self._messages.append(message)
        self._size += len(message)
        self._is_silent = False
        self._wake()

    def _sent(self) -> None:
        self._size = sum(map(len, self._messages))
        if self._drained and not self.is_congested:
            self._drained.set()
            self._drained = None

    async def _wait(self) -> None:
        """Wait until something changes."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class PostStream(EventStream):
    """The answer to a POST: JSON, or events once something precedes the answer.

    It ends with the last answer to the requests of the POST.
    """

    def __init__(
        self,
        accepted: Accepted,
        *,
        is_batch: bool = False,
        status_of: Callable[[JSONObject], int] = lambda _: _OK,
    ) -> None:
        """Write nothing yet.

        Args:
            accepted: What the client accepts. Without events, only answers are written.
            is_batch: Whether answers in JSON are an array.
            status_of: The status of HTTP for an answer in JSON.
        """
        super().__init__()
        self._accepted = accepted
        self._is_batch = is_batch
        self._status_of = status_of
        self._status = _OK
        self._unanswered = 0
        self._has_events = not accepted.json

    @property
    def is_open(self) -> bool:
        """True if a request is not answered yet."""
        return self._unanswered > 0

    @property
    def is_empty(self) -> bool:
        """True if there is no answer, and none will follow."""
        return not (self._messages or self._unanswered)

    def write(self, message: JSONObject) -> None:
        if self.is_closed:
            return
        is_answer = "method" not in message
        if not is_answer and not self._accepted.events:
            return
        data = encode_finite(message)
        if is_answer:
            self._status = self._status_of(message)
        else:
            self._begin_events()
        self._append(_event(data) if self._has_events else data)

    def begin(self) -> None:
        self._unanswered += 1

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        if is_cancelled:
            self.write(error_answer(request_id, RpcError(_CANCELLED, "Request cancelled")))
        self._unanswered -= 1
        self._wake()

    def ping(self) -> None:
        if self._is_silent and self._accepted.events:
            self._begin_events()
        if self._has_events:
            super().ping()
        self._is_silent = True

    async def respond(self, send: Send, *headers: Header) -> None:
        """Send the answer when it is complete, or events as they come."""
        while self._unanswered and not self._has_events:
            await self._wait()
        if not self._has_events:
            body = self._messages[0] if not self._is_batch else _array(self._messages)
            await respond(send, self._status, body, JSON, *headers)
            return
        await start(send, _OK, [*_EVENTS, *headers])
        while self._unanswered:
            if self._messages:
                await self._send_events(send, is_last=False)
            else:
                await self._wait()
        await self._send_events(send, is_last=True)

    def _begin_events(self) -> None:
        if not self._has_events:
            self._has_events = True
            self._messages = [_event(data) for data in self._messages]
            self._wake()


class RelayedStream:
    """A `ClientStream` for one request, whose messages are read in batches, and then its answer.

    What is too long for a batch is dropped.
    """

    def __init__(self) -> None:
        self._answer: Promise[JSONObject] = Promise()
        self._messages: list[JSONObject] = []
        self._size = 0
        self._changed = anyio.Event()

    @property
    def is_congested(self) -> bool:
        return len(self._messages) >= _BATCH or self._size >= _BATCH_SIZE

    async def answer(self) -> JSONObject:
        """The answer to the request, once it is written."""
        return await self._answer.wait()

    async def batch(self) -> list[JSONObject]:
        """The messages since the last batch, in order; empty if nothing but the answer is left."""
        while not (self._messages or self._answer.is_settled):
            await self._changed.wait()
        batch, self._messages, self._size = self._messages, [], 0
        self._notify()
        return batch

    def write(self, message: JSONObject) -> None:
        if "method" not in message:
            self._answer.set(message)
        elif (size := len(encode_finite(message))) <= _BATCH_SIZE:
            self._messages.append(message)
            self._size += size
        self._notify()

    async def drain(self) -> None:
        while self.is_congested:
            await self._changed.wait()

    def begin(self) -> None:
        """No-op."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """No-op: only its client could cancel a request without an answer."""

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class OpenStreams:
    """The streams on which clients wait; those that are silent get a ping now and then."""

    def __init__(self) -> None:
        self._open: set[EventStream] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def opened(self, stream: EventStream) -> Iterator[None]:
        """While a client waits for a stream, and reads it."""
        self._open.add(stream)
        if self._timer is None:
            self._start_timer()
        try:
            yield
        finally:
            self._open.discard(stream)

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PING_INTERVAL, self._ping)

    def _ping(self) -> None:
        self._timer = None
        for stream in self._open:
            stream.ping()
        if self._open:
            self._start_timer()


def _event(line: bytes) -> bytes:
    return b"event: message\ndata: " + line + b"\n"


def _array(lines: list[bytes]) -> bytes:
    return b"[" + b",".join(lines) + b"]"
