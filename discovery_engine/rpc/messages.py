"""JSON-RPC 2.0: its messages, its errors, and the interface of the other side of a connection.

Params and results stay plain JSON. `stream_peer.StreamPeer` implements `Peer` over lines of text,
and `upstream.http.http_peer` over HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeGuard

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
        """The way the answer was lost, if only that of this request was."""
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
    """A time limit for the answer to a request."""

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


class Request(Struct):
    id: RequestId
    method: str
    params: JSONObject | None = None


class Notification(Struct):
    method: str
    params: JSONObject | None = None


class Response(Struct):
    id: RequestId
    result: JSONObject


class ErrorResponse(Struct):
    id: RequestId
    error: RpcError


Message: TypeAlias = Request | Notification | Response | ErrorResponse


def as_message(value: JSONValue) -> Message | None:
    """A message whose params and result are not checked; None if it is not JSON-RPC."""
    if not isinstance(value, dict):
        return None
    method, id_ = value.get("method"), value.get("id")
    if not isinstance(method, str):
        return _answer(value)
    if is_request_id(id_):
        return Request(id_, method, _params(value))
    return None if "id" in value else Notification(method, _params(value))


def _answer(value: JSONObject) -> Response | ErrorResponse | None:
    id_ = value.get("id")
    if type(id_) is not int and (id_ := _request_id(id_)) is None:
        return None
    if isinstance(result := value.get("result"), dict):
        return Response(id_, result)
    if isinstance(error := value.get("error"), dict | str):
        return ErrorResponse(id_, as_error(error))
    return None


def answered_id(value: JSONValue) -> RequestId | None:
    """The id of the request that a value answers, valid or not; None if it shows none."""
    is_answer = isinstance(value, dict) and "method" not in value
    return _request_id(value.get("id")) if is_answer else None


def fault_of(value: JSONValue) -> str:
    """Return what is wrong with a value that came as an answer and is not one."""
    if not isinstance(value, dict):
        return f"it is {_kind(value)}, not a message of JSON-RPC"
    if "method" in value:
        return "it is a request of JSON-RPC, not an answer"
    for member in ("result", "error"):
        if value.get(member) is not None:
            return f"its `{member}` is {_kind(value[member])}"
    return "it has neither `result` nor `error`"


def _kind(value: JSONValue) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object, and it has no `id`"
        case _:
            return "a boolean" if isinstance(value, bool) else "a number"


def as_json(message: Message) -> JSONObject:
    """The members of a message that are set, in the order of the protocol's examples."""
    match message:
        case Request(id_, method, params):
            members: JSONObject = {"jsonrpc": "2.0", "id": id_, "method": method}
            return members if params is None else members | {"params": params}
        case Notification(method, params):
            members = {"jsonrpc": "2.0", "method": method}
            return members if params is None else members | {"params": params}
        case Response(id_, result):
            return {"jsonrpc": "2.0", "id": id_, "result": result}
        case ErrorResponse(id_, error):
            return error_answer(id_, error)


def error_answer(request_id: RequestId | None, error: RpcError) -> JSONObject:
    """An error as plain JSON; the id is None if the request shows none."""
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_json()}


def unreadable(request_id: RequestId | None, reason: str) -> ErrorResponse | None:
    """An error answer instead of one that cannot be read, so that its caller stops waiting."""
    return None if request_id is None else ErrorResponse(request_id, InvalidAnswerError(reason))


def is_request_id(value: Any) -> TypeGuard[RequestId]:
    """Return whether a value is a JSON-RPC id; MCP does not allow fractions or null."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def correlated(request_id: RequestId) -> RequestId:
    """An id as it is compared: some servers return the id 7 as "7"."""
    if isinstance(request_id, str):
        try:
            return int(request_id)
        except ValueError:
            return request_id
    return request_id


def _params(message: JSONObject) -> JSONObject | None:
    params = message.get("params")
    return params if isinstance(params, dict) else None


def _request_id(id_: JSONValue) -> RequestId | None:
    """The id in an answer; some languages write every number as a float."""
    if isinstance(id_, float) and id_.is_integer():
        return int(id_)
    return id_ if is_request_id(id_) else None


def as_error(error: JSONObject | str) -> RpcError:
    """The `error` of an answer; without a code, its code is 0."""
    if isinstance(error, str):
        return RpcError(0, error)
    code, message = error.get("code"), error.get("message")
    if isinstance(code, float) and code.is_integer():
        code = int(code)
    return RpcError(
        code if isinstance(code, int) and not isinstance(code, bool) else 0,
        message if isinstance(message, str) else "it gave no message",
        error.get("data"),
    )
