"""A peer at the other end of two streams of lines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeAlias

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.in_flight import PendingRequests, send_request
from discovery_engine.rpc.json_codec import encode
from discovery_engine.rpc.messages import (
    ErrorResponse,
    Message,
    Notification,
    OnProgress,
    Request,
    RequestTimeout,
    Response,
    as_json,
)

OnRequest: TypeAlias = Callable[[Request], None]
OnNotification: TypeAlias = Callable[[Notification], None]


class LineSink(Protocol):
    """Takes lines at once and writes them in order; all lines of one loop turn together."""

    @property
    def is_congested(self) -> bool:
        """True if so much waits to be written that a sender should wait."""

    def write(self, line: bytes) -> None:
        """Write a line, or several; no-op if the other side reads no more."""

    async def drain(self) -> None:
        """Wait until it is not congested any more, or closed."""


class StreamPeer:
    """Implements `Peer`; the reader of the other stream passes each message to `deliver`.

    Callbacks are called in the order of the messages and must not block.
    """

    def __init__(
        self,
        sink: LineSink,
        *,
        on_request: OnRequest,
        on_notification: OnNotification = lambda _notification: None,
    ) -> None:
        self._stream = LineStream(sink)
        self._on_request = on_request
        self._on_notification = on_notification
        self.pending = PendingRequests()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - of HTTP
        timeout: RequestTimeout | None = None,
        on_progress: OnProgress | None = None,
        can_cancel: bool = True,
    ) -> Coroutine[Any, Any, JSONObject]:
        """Send a request and return its result; see `Peer.request`."""
        return send_request(
            self.pending,
            self._stream,
            method,
            params,
            timeout=timeout,
            on_progress=on_progress,
            can_cancel=can_cancel,
        )

    async def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - of HTTP
    ) -> None:
        """Send a notification; see `Peer.notify`."""
        if self._stream.is_congested:
            await self._stream.drain()
        self.send(Notification(method, params))

    def send(self, message: Message) -> None:
        """Write a message without waiting; the caller bounds how many.

        Raises:
            ValueError: If it contains what JSON cannot express.
        """
        self._stream.write(as_json(message))

    def deliver(self, message: Message) -> None:
        """Process a message of the other side."""
        match message:
            case Response(id_, result):
                self.pending.settle(id_, result)
            case ErrorResponse(id_, error):
                self.pending.settle(id_, error)
            case Request():
                self._on_request(message)
            case Notification("notifications/progress", params) if params:
                self.pending.report(params)
            case Notification():
                self._on_notification(message)

    def close(self) -> None:
        """The connection has ended: requests in flight fail."""
        self._is_closed = True
        self.pending.close()


class LineStream:
    """A `MessageStream` over lines."""

    encode: Callable[[JSONObject], bytes] = staticmethod(encode)

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink

    @property
    def is_congested(self) -> bool:
        return self._sink.is_congested

    def write(self, message: JSONObject) -> None:
        self._sink.write(self.encode(message))

    async def drain(self) -> None:
        await self._sink.drain()
