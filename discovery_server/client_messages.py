"""The messages of a client: checked when they come, and the stream for all that they cause.

They are checked more strictly than those of servers. A limit on the values of a message applies
before it is parsed, since parsing creates an object for each array and member, which the garbage
collector traverses again and again: two million brackets in 4 MiB blocked the event loop for 1 to
4 s. Counting bytes takes milliseconds.
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
    """A request or notification; None if it is neither."""
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return None
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
        return None
    if "id" not in value:
        return Notification(method, params)
    return Request(value["id"], method, params) if is_request_id(value["id"]) else None


def is_response(value: JSONValue) -> bool:
    return (
        isinstance(value, dict)
        and "method" not in value
        and ("result" in value or "error" in value)
    )


def id_of(value: JSONValue) -> RequestId | None:
    """The id of an invalid request, so that its sender stops waiting."""
    if isinstance(value, dict) and is_request_id(value.get("id")):
        identity: RequestId = value["id"]
        return identity
    return None


_MAX_MESSAGE_PARTS = 50_000  # arrays, objects and members of objects: 4 to 20 ms of parsing
_SMALL = 64 * 1024  # bytes; what is shorter is parsed before it is counted
_SLICE = 64 * 1024  # bytes counted at once

_EDGE = 512  # bytes
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")\s*'
_OTHER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*'
_BEGINNING = lazy_pattern(rb"\s*\{\s*(?:" + _OTHER + rb",\s*)*" + _ID + rb"[,}]")
_END = lazy_pattern(rb",\s*" + _ID + rb"(?:,\s*" + _OTHER + rb")*\}\s*$")


class _Envelope(msgspec.Struct):
    id: int | str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def refusal(message: bytes) -> JSONObject | None:
    """The answer to a message of too many parts; None for one that may be parsed."""
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
    """The id of a request, if it is in its first or last bytes, as nearly always."""
    if match := _BEGINNING.match(beginning[:_EDGE]) or _END.search(end[-_EDGE:]):
        return msgspec.json.decode(match[1], type=int | str)
    return None


def _request_id(message: bytes) -> RequestId | None:
    """The id of a request.

    Reading 4 MB of brackets to find it took 13 ms.

    Raises:
        ValueError, RecursionError: If it is at neither end, and the message cannot be read.
    """
    at_edge = id_at_edges(message, message)
    return _ENVELOPE.decode(message).id if at_edge is None else at_edge


def _has_many_parts(message: bytes) -> bool:
    # As many texts as parts: telling them apart would cost as much as parsing.
    return any(
        parts > _MAX_MESSAGE_PARTS or texts > _MAX_MESSAGE_PARTS
        for parts, texts in counted(message)
    )


def counted(message: bytes, *, step: int = _SLICE) -> Iterator[tuple[int, int]]:
    """How many parts and texts there are up to the end of each slice of `step` bytes.

    Brackets and colons of a text, such as code, are no parts of the message. A caller that has read
    enough goes no further: two million brackets are too many after 64 KiB of their 4 MB.
    """
    parts = quotes = 0
    cut = b""
    for start in range(0, len(message), step):
        unescaped = cut + message[start : start + step]
        if b"\\" in unescaped:
            unescaped = unescaped.replace(b"\\\\", b"")
            cut = b"\\" if unescaped.endswith(b"\\") else b""  # what it escapes comes next
            unescaped = unescaped.removesuffix(cut).replace(b'\\"', b"")
        else:
            cut = b""
        pieces = unescaped.split(b'"')
        outside = b"".join(pieces[quotes % 2 :: 2])
        parts += sum(outside.count(sign) for sign in (b"[", b"{", b":"))
        quotes += len(pieces) - 1
        yield parts, quotes // 2


class ClientStream(MessageStream, Protocol):
    """Takes all that belongs to one message of a client: answers, progress, requests to the client.

    Over stdio all messages share one; over HTTP each POST has its own.
    """

    def begin(self) -> None:
        """A request will be answered later: the stream stays open for it."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """Nothing follows for a request that began; one that was cancelled got no answer."""


class ClientLines(LineStream):
    """A `ClientStream` over lines, which is always open."""

    encode = staticmethod(encode_finite)

    def begin(self) -> None:
        """No-op."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """No-op."""


_MESSAGES = 1_000  # log messages of one request; a client that reads slowly loses some


class CallOutput:
    """The stream of one request; nothing is written to it after `end`."""

    def __init__(self, stream: ClientStream, params: JSONObject) -> None:
        """`params` are those of the request."""
        self.stream = stream
        self._token: RequestId | None = (params.get("_meta") or {}).get("progressToken")
        self._messages = 0
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True if the request is answered."""
        return self._is_over

    @property
    def wants_progress(self) -> bool:
        return self._token is not None

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Write the progress, after waiting until the client reads; see `OnProgress`."""
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

        It is dropped if the client does not read, or has had too many.
        """
        if self.stream.is_congested or self._messages >= _MESSAGES:
            return
        self._messages += 1
        self._write(method, params)

    def end(self) -> None:
        """The request is answered."""
        self._is_over = True

    def _write(self, method: str, params: JSONObject) -> None:
        if not self._is_over:
            self.stream.write(as_json(Notification(method, params)))
