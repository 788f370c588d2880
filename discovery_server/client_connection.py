"""The connection to one client over lines: each request gets an answer, in the client's era.

The first request decides the era. A client that probes with `server/discover` may time out during
a slow start and send `initialize` instead: then it is served in the handshake era, whether or not
its probe was answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.rpc.framing import Overlong
from discovery_engine.rpc.incoming import IncomingRequests
from discovery_engine.rpc.json_codec import decode_standard, encode_finite
from discovery_engine.rpc.messages import (
    ErrorResponse,
    Notification,
    Request,
    Response,
    as_json,
    error_answer,
    is_request_id,
)
from discovery_engine.rpc.peer import RequestId, RpcError
from discovery_engine.rpc.protocol import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from discovery_server.eras import Era, HandshakeEra, era_of
from discovery_server.gateway import ClientRequest, Gateway, method_not_found
from discovery_server.message_size import id_at_edges, refusal

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.rpc.stream_peer import LineSink

logger = logging.getLogger(__name__)

Line: TypeAlias = bytes | Overlong

MAX_LINE = 64 << 20  # bytes; a longer line is refused
_MOST_RUNNING = 256  # requests; further ones wait
_MOST_UNANSWERED = 1024  # requests; then no more are read
_MOST_UNANSWERED_BYTES = MAX_LINE


class ClientConnection:
    """Takes the client's lines in order, and writes the answers to a sink."""

    def __init__(
        self, gateway: Gateway, sink: LineSink, *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`on_end` is called after each request that had to wait for its answer."""
        self._gateway = gateway
        self._sink = sink
        self._requests = IncomingRequests(self._send, most=_MOST_RUNNING, on_end=on_end)
        self._era: Era | None = None
        self._is_probed = False
        """Whether all requests so far were probes, so that the era may still change."""
        self._is_initialized = False
        """Whether `notifications/initialized` came before the first request."""
        self._overlong_id: RequestId | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the next line should wait: too much is unanswered, or answers are not read."""
        return (
            self._sink.is_congested
            or len(self._requests) >= _MOST_UNANSWERED
            or self._requests.size >= _MOST_UNANSWERED_BYTES
        )

    def resume(self, line: bytes) -> None:
        """Continue after a first request that was answered before this object existed."""
        if request := _message(decode_standard(line)):
            params = request.params or {}
            self._era = era_of(request.method, params, is_initialized=False)
            self._is_probed = request.method == "server/discover"
            if isinstance(self._era, HandshakeEra):
                self._era.accept(params)

    async def close(self) -> None:
        """Cancel the requests that have no answer yet, and answer each with an error."""
        await self._requests.close()

    def receive(self, line: Line, following: Iterable[Line] = ()) -> None:
        """Process a line; `following` are the lines behind it that have arrived already."""
        if isinstance(line, Overlong):
            self._refuse_overlong(line)
        elif error := refusal(line):
            self._write(error)
        elif line and not line.isspace():
            self._receive_message(line, following)

    def _receive_message(self, line: bytes, following: Iterable[Line]) -> None:
        try:
            value = decode_standard(line)
        except ValueError:
            text = "Parse error: the line is not JSON, or nests too deeply"
            self._refuse(None, PARSE_ERROR, text)
            return
        is_batch = isinstance(value, list) and len(value) > 0
        if is_batch and self._era and self._era.accepts_batches:
            for item in value:  # that version lets a server answer each one on its own
                self._on_message(item, len(line) // len(value), ())
        else:
            self._on_message(value, len(line), following)

    def _on_message(self, value: JSONValue, size: int, following: Iterable[Line]) -> None:
        match _message(value):
            case Request() as request:
                self._on_request(request, size, following)
            case Notification() as notification:
                self._on_notification(notification)
            case None if not _is_response(value):  # we send no requests, so none is expected
                text = "Invalid Request: a line must be one JSON-RPC 2.0 message"
                self._refuse(_id_of(value), INVALID_REQUEST, text)

    def _on_request(self, request: Request, size: int, following: Iterable[Line]) -> None:
        try:
            checked, result = self._answer(request, following)
        except RpcError as error:
            self._send(ErrorResponse(request.id, error))
        except Exception:  # a defect of ours must not end the connection
            logger.exception("%s failed", request.method)
            self._refuse(request.id, INTERNAL_ERROR, "Internal error")
        else:
            if result is None:
                self._requests.start(request.id, partial(self._call_tool, checked), size=size)
            else:
                self._send(Response(request.id, result))

    def _answer(
        self, request: Request, following: Iterable[Line]
    ) -> tuple[ClientRequest, JSONObject | None]:
        """The request in its version, and its result if it needs no waiting."""
        method, params = request.method, request.params or {}
        is_probe = method == "server/discover" and (self._era is None or self._is_probed)
        if is_probe and any(map(_is_initialize, following)):
            raise method_not_found(method)
        if self._era is None or (self._is_probed and method == "initialize"):
            self._era = era_of(method, params, is_initialized=self._is_initialized)
        self._is_probed = is_probe
        checked = ClientRequest(method, params, self._era.version_of(method, params))
        result = self._gateway.answer(checked)
        if method == "initialize" and result and isinstance(self._era, HandshakeEra):
            self._era.accept(result)
        return checked, result

    async def _call_tool(self, request: ClientRequest) -> JSONObject:
        token = (request.params.get("_meta") or {}).get("progressToken")
        if token is None:
            return await self._gateway.call_tool(request)
        progress = _Progress(token, self._sink)
        try:
            return await self._gateway.call_tool(request, progress.send)
        finally:
            progress.is_over = True

    def _on_notification(self, notification: Notification) -> None:
        if notification.method == "notifications/cancelled":
            if is_request_id(cancelled := (notification.params or {}).get("requestId")):
                self._requests.cancel(cancelled)
        elif notification.method == "notifications/initialized":
            if self._era is None:
                self._is_initialized = True
            elif isinstance(self._era, HandshakeEra):
                self._era.is_initialized = True

    def _refuse_overlong(self, line: Overlong) -> None:
        """Answer a line that is too long, when its end has arrived."""
        if line.head:
            self._overlong_id = id_at_edges(line.head, b"")
            return
        found, self._overlong_id = self._overlong_id, None
        text = f"INPUT_TOO_LONG: a message may have at most {MAX_LINE:,} bytes"
        request = id_at_edges(b"", line.tail) if found is None else found
        self._refuse(request, INVALID_REQUEST, text)

    def _refuse(self, request: RequestId | None, code: int, text: str) -> None:
        self._write(error_answer(request, RpcError(code, text)))

    def _send(self, answer: Response | ErrorResponse) -> None:
        try:
            self._write(as_json(answer))
        except ValueError:  # a result of a server, wrapped once more, may nest too deeply
            logger.exception("A result cannot be sent")
            self._refuse(answer.id, INTERNAL_ERROR, "The result nests too deeply")

    def _write(self, message: JSONObject) -> None:
        self._sink.write(encode_finite(message))


class _Progress:
    """The progress of one call, in order; none is written after its result."""

    def __init__(self, token: RequestId, sink: LineSink) -> None:
        self._token = token
        self._sink = sink
        self.is_over = False

    async def send(self, progress: float, total: float | None, message: str | None) -> None:
        if self._sink.is_congested:
            await self._sink.drain()
        if self.is_over:
            return
        params: JSONObject = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._sink.write(encode_finite(as_json(Notification("notifications/progress", params))))


def _message(value: JSONValue) -> Request | Notification | None:
    """A request or notification; None if it is neither."""
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return None
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
        return None
    if "id" not in value:
        return Notification(method, params)
    return Request(value["id"], method, params) if is_request_id(value["id"]) else None


def _is_response(value: JSONValue) -> bool:
    return (
        isinstance(value, dict)
        and "method" not in value
        and ("result" in value or "error" in value)
    )


def _id_of(value: JSONValue) -> RequestId | None:
    """The id of an invalid request, so that its sender stops waiting."""
    if isinstance(value, dict) and is_request_id(value.get("id")):
        identity: RequestId = value["id"]
        return identity
    return None


def _is_initialize(line: Line) -> bool:
    if isinstance(line, Overlong) or b'"initialize"' not in line or refusal(line):
        return False
    try:
        message = _message(decode_standard(line))
    except ValueError:
        return False
    return isinstance(message, Request) and message.method == "initialize"
