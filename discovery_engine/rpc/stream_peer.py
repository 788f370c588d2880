"""A peer at the other end of two streams of lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.json_codec import encode
from discovery_engine.rpc.messages import (
    ErrorResponse,
    Message,
    Notification,
    Request,
    Response,
    as_json,
)
from discovery_engine.rpc.peer import (
    OnProgress,
    RequestId,
    RequestTimeout,
    RequestTimeoutError,
)
from discovery_engine.rpc.pending import PendingRequests

OnRequest: TypeAlias = Callable[[Request], None]
OnNotification: TypeAlias = Callable[[Notification], None]


class LineSink(Protocol):
    """Takes lines at once and writes them in order; all lines of one loop turn together."""

    @property
    def is_congested(self) -> bool:
        """Whether so much waits to be written that a sender should wait."""

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
        self._sink = sink
        self._on_request = on_request
        self._on_notification = on_notification
        self.pending = PendingRequests()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - of HTTP
        timeout: RequestTimeout | None = None,  # noqa: ASYNC109 - extended by progress
        on_progress: OnProgress | None = None,
        can_cancel: bool = True,
    ) -> JSONObject:
        """As `Peer.request`."""
        number, pending = self.pending.add(timeout, on_progress)
        is_sent = False
        try:
            if self._sink.is_congested:
                # A request that waits here was not sent, so there is nothing to cancel: a caller
                # that gives up leaves nothing in the buffer.
                await pending.work(self._sink.drain)
                if pending.is_settled:
                    return await pending.wait()
            if on_progress:
                params = _with_token(params, number)
            self._sink.write(encode(as_json(Request(number, method, params))))
            is_sent = True
            return await pending.wait()
        except (asyncio.CancelledError, RequestTimeoutError) as error:
            if can_cancel and is_sent and self.pending.is_waiting(number):
                self._cancel(number, error)
            raise
        finally:
            self.pending.discard(number)

    async def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 - of HTTP
    ) -> None:
        """As `Peer.notify`."""
        if self._sink.is_congested:
            await self._sink.drain()
        self.send(Notification(method, params))

    def send(self, message: Message) -> None:
        """Write a message without waiting; the caller bounds how many.

        Raises:
            ValueError: If it contains what JSON cannot express.
        """
        self._sink.write(encode(as_json(message)))

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

    def _cancel(self, number: RequestId, error: BaseException) -> None:
        is_timeout = isinstance(error, RequestTimeoutError)
        reason = f"timed out: {error}" if is_timeout else "the caller was cancelled"
        params = {"requestId": number, "reason": reason}
        self.send(Notification("notifications/cancelled", params))


def _with_token(params: JSONObject | None, number: RequestId) -> JSONObject:
    params = params or {}
    return {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": number}}
