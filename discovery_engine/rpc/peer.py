"""The other side of a connection, as everything above the wire sees it.

A `Peer` sends requests and notifications of JSON-RPC 2.0, whose params and results are plain JSON.
`StreamPeer` implements it over lines of text, and `upstream.http.http_peer` over HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.protocol import CONNECTION_CLOSED, PARSE_ERROR

RequestId: TypeAlias = int | str

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Awaited with the progress, the total if known, and the message if any."""


class RpcError(Exception):
    """An error answer, or the reason why there is none."""

    def __init__(self, code: int, message: str, data: JSONValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> JSONObject:
        """The `error` member of an answer; `data` is omitted if it is None."""
        error: JSONObject = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


class ConnectionClosedError(RpcError):
    """The connection ended before an answer.

    Not known by its code: many servers use `CONNECTION_CLOSED` for any error of theirs.
    """

    def __init__(self, reason: str = "", *, was_sent: bool = True) -> None:
        """`was_sent` is False if the request provably never left this process."""
        super().__init__(CONNECTION_CLOSED, "Connection closed")
        self.reason = reason
        """How the answer was lost, if only that of this request was."""
        self.was_sent = was_sent


class InvalidAnswerError(RpcError):
    """An answer came, and is none of JSON-RPC; the message says in our words what is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(PARSE_ERROR, message)


class RequestTimeoutError(TimeoutError):
    """No answer in time; `seconds` is the limit that applied."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s")
        self.seconds = seconds


class Clock(Protocol):
    def time(self) -> float:
        """Seconds, of the event loop."""

    def paused(self) -> AbstractContextManager[None]:
        """A block during which the time does not go on."""


class RequestTimeout(Struct, frozen=True):
    """How long a request waits for its answer."""

    seconds: float
    """Since it was sent, or since its last progress notification."""
    longest: float = 0.0
    """Since it was sent, however often progress is reported; at least `seconds`."""
    clock: Clock | None = None
    """It measures both; None for the event loop's own."""


class Peer(Protocol):
    """Requests may be sent from any task of the event loop."""

    @property
    def is_closed(self) -> bool:
        """True if the connection has ended; further requests fail."""

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: RequestTimeout | None = None,  # noqa: ASYNC109 - extended by progress
        on_progress: OnProgress | None = None,
        can_cancel: bool = True,
    ) -> JSONObject:
        """The result of a request.

        A request that times out, or whose caller is cancelled, is cancelled with
        `notifications/cancelled`.

        Args:
            method: The method.
            params: A `progressToken` is added to their `_meta` if `on_progress` is given.
            headers: Sent with it over HTTP; without effect elsewhere.
            timeout: How long to wait; None waits until the connection ends.
            on_progress: Awaited for each progress notification, in order; the result is returned
                after the last one.
            can_cancel: False for requests that the protocol forbids to cancel.

        Raises:
            ConnectionClosedError: If the connection ends before an answer.
            RpcError: The error answer.
            RequestTimeoutError: If there is no answer in time.
            ValueError: If `params` contain what JSON cannot express.
        """

    async def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; no-op after the connection has ended."""
