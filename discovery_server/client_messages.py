"""Checks of incoming client messages, and the streams for what is sent in return.

They are checked more strictly than messages of servers. The number of arrays, objects and members
is limited before a message is parsed, since parsing creates objects that the garbage collector
traverses again and again: two million brackets in 4 MiB blocked the event loop for 1 to 4 s.
Counting bytes takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from discovery_engine._util.json import JSONObject
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.rpc.in_flight import MessageStream
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.rpc.messages import (
    Notification,
    Request,
    RequestId,
    RpcError,
    as_json,
    error_answer,
    is_request_id,
)
from discovery_engine.rpc.protocol import INVALID_PARAMS, PARSE_ERROR
from discovery_engine.rpc.stream_peer import LineStream

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue


def as_incoming(value: JSONValue) -> Request | Notification | None:
    """Return the request or notification that a JSON value is; None if it is neither."""
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return None
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
        return None
    if "id" not in value:
        return Notification(method, params)
    return Request(value["id"], method, params) if type(value["id"]) in (int, str) else None


def is_response(value: JSONValue) -> bool:
    return (
        isinstance(value, dict)
        and "method" not in value
        and ("result" in value or "error" in value)
    )


def id_of(value: JSONValue) -> RequestId | None:
    """Return the id of an invalid request, so that its sender can be answered; None without one."""
    if isinstance(value, dict) and is_request_id(value.get("id")):
        identity: RequestId = value["id"]
        return identity
    return None


_MAX_MESSAGE_PARTS = 50_000  # arrays, objects and members of objects: 4 to 20 ms of parsing
_SMALL = 64 * 1024  # bytes; a message up to this size is not counted
_SLICE = 64 * 1024  # bytes that are counted at a time

_EDGE = 512  # bytes
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_OTHER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*'
_BEGINNING = lazy_pattern(rb"\s*\{\s*(?:" + _OTHER + rb",\s*)*" + _ID + rb"[,}]")
_END = lazy_pattern(rb",\s*" + _ID + rb"(?:,\s*" + _OTHER + rb")*\}\s*$")


class _Envelope(msgspec.Struct):
    id: int | str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def refusal(message: bytes) -> JSONObject | None:
    """Return the error answer to a message with too many parts; None if it may be parsed."""
    if len(message) <= _SMALL or not _has_many_parts(message):
        return None
    try:
        request = _request_id(message)
    except (ValueError, RecursionError):
        text = "the body is no JSON, or is nested too deeply"
        return error_answer(None, RpcError(PARSE_ERROR, text))
    text = (
        f"INPUT_TOO_LONG: the message has more than {_MAX_MESSAGE_PARTS:,} "
        "arrays, objects and members"
    )
    return error_answer(request, RpcError(INVALID_PARAMS, f"{text}; split it into several calls"))


def id_at_edges(beginning: bytes, end: bytes) -> RequestId | None:
    """Return the id of a request if it is in the first or last 512 bytes, as nearly always."""
    if match := _BEGINNING.match(beginning[:_EDGE]) or _END.search(end[-_EDGE:]):
        return msgspec.json.decode(match[1], type=int | str)
    return None


def _request_id(message: bytes) -> RequestId | None:
    """Return the id of a request; None if it has none.

    If it is at neither end, the message is decoded for it, which takes 13 ms for 4 MB of brackets.

    Raises:
        ValueError, RecursionError: If the message must be decoded, and cannot be.
    """
    at_edge = id_at_edges(message, message)
    return _ENVELOPE.decode(message).id if at_edge is None else at_edge


def _has_many_parts(message: bytes) -> bool:
    # Both have the same limit: texts that are members cannot be told apart without parsing.
    return any(
        parts > _MAX_MESSAGE_PARTS or texts > _MAX_MESSAGE_PARTS
        for parts, texts in counted(message)
    )


def counted(message: bytes, *, step: int = _SLICE) -> Iterator[tuple[int, int]]:
    """Yield the numbers of parts and texts up to the end of each slice of `step` bytes.

    Brackets and colons within texts do not count. A caller may stop early: of 4 MB of brackets, the
    first 64 KiB are too many already.
    """
    parts = quotes = 0
    cut = b""
    for start in range(0, len(message), step):
        unescaped = cut + message[start : start + step]
        if b"\\" in unescaped:
            unescaped = unescaped.replace(b"\\\\", b"")
            cut = b"\\" if unescaped.endswith(b"\\") else b""  # it escapes the next slice's start
            unescaped = unescaped.removesuffix(cut).replace(b'\\"', b"")
        else:
            cut = b""
        pieces = unescaped.split(b'"')
        outside = b"".join(pieces[quotes % 2 :: 2])
        parts += sum(outside.count(sign) for sign in (b"[", b"{", b":"))
        quotes += len(pieces) - 1
        yield parts, quotes // 2


class ClientStream(MessageStream, Protocol):
    """The stream for answers, progress and requests that a client's message causes.

    Over stdio all messages share one stream; over HTTP each POST has its own.
    """

    def begin(self) -> None:
        """Keep the stream open for a request that is answered later."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """End a request after `begin`; if it was cancelled, it got no answer."""


class ClientLines(LineStream):
    """A `ClientStream` of lines, which is always open."""

    encode = staticmethod(encode_finite)

    def begin(self) -> None:
        """Begin a request; no-op."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """End a request; no-op."""


_MESSAGES = 1_000  # notifications, besides progress, of one request


class CallOutput:
    """The stream of one request; nothing is written to it after `end`."""

    def __init__(self, stream: ClientStream, params: JSONObject) -> None:
        """Create the output of the request with these params."""
        self.stream = stream
        self._token: RequestId | None = (params.get("_meta") or {}).get("progressToken")
        self._messages = 0
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True if the request has been answered."""
        return self._is_over

    @property
    def wants_progress(self) -> bool:
        return self._token is not None

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Write progress once the stream is not congested; no-op without a progress token."""
        if self._token is None:
            return
        if self.stream.is_congested:
            await self.stream.drain()
        params: JSONObject = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._write("notifications/progress", params)

    def notify(self, method: str, params: JSONObject) -> None:
        """Write a notification; see `Client.notify`.

        It is dropped if the stream is congested, or after 1,000 notifications.
        """
        if self.stream.is_congested or self._messages >= _MESSAGES:
            return
        self._messages += 1
        self._write(method, params)

    def end(self) -> None:
        """Mark the request as answered; nothing more is written."""
        self._is_over = True

    def _write(self, method: str, params: JSONObject) -> None:
        if not self._is_over:
            self.stream.write(as_json(Notification(method, params)))
