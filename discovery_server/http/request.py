"""One HTTP request with a message: its headers, and its body as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.rpc.json_codec import decode_standard
from discovery_engine.rpc.protocol import INVALID_REQUEST, PARSE_ERROR
from discovery_server.client_messages import refusal
from discovery_server.http.asgi import HttpError, Receive, Send

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_server.http.asgi import Scope

_LONGEST_BODY = 4 << 20  # bytes
_OK, _BAD, _NOT_ACCEPTABLE, _TOO_LARGE, _UNSUPPORTED = 200, 400, 406, 413, 415  # statuses
_JSON_KINDS = frozenset({"application/json", "application/*", "*/*"})
_EVENT_KINDS = frozenset({"text/event-stream", "text/*", "*/*"})
_USUAL = frozenset(
    {
        b"application/json, text/event-stream",
        b"application/json,text/event-stream",
        b"text/event-stream, application/json",
    }
)


class Accepted(Struct, frozen=True):
    """The kinds of answers that a client accepts."""

    json: bool
    events: bool


_BOTH = Accepted(json=True, events=True)


class DisconnectedError(Exception):
    """The client has closed the connection before its request was complete."""


class Headers:
    """The headers of a request, by their names in lower case."""

    def __init__(self, scope: Scope) -> None:
        self._pairs = scope["headers"]
        self._values = dict(self._pairs)

    def get(self, name: bytes) -> str | None:
        value = self._values.get(name)
        return None if value is None else value.decode("latin-1")

    def is_repeated(self, name: bytes) -> bool:
        """Return whether a header was sent more than once, so that two readers may differ."""
        if len(self._pairs) == len(self._values):
            return False
        return len([key for key, _ in self._pairs if key == name]) > 1

    @property
    def accepted(self) -> Accepted:
        """The kinds of content that `Accept` names; all kinds if there is none."""
        value = self._values.get(b"accept")
        if value is None or value in _USUAL:
            return _BOTH
        kinds = {
            kind.partition(";")[0].strip().lower() for kind in value.decode("latin-1").split(",")
        }
        return Accepted(
            json=not kinds.isdisjoint(_JSON_KINDS), events=not kinds.isdisjoint(_EVENT_KINDS)
        )

    def require_message(self) -> Accepted:
        """Check the headers of a POST.

        Raises:
            HttpError: If its body is of another kind than JSON, or no answer would be accepted.
        """
        accepted = self.accepted
        if not (accepted.json or accepted.events):
            text = "the client must accept application/json and text/event-stream"
            raise HttpError(_NOT_ACCEPTABLE, INVALID_REQUEST, text)
        kind = self._values.get(b"content-type", b"")
        if kind != b"application/json":
            plain = kind.partition(b";")[0].strip().lower()
            if plain != b"application/json":
                text = "the body must be sent as `Content-Type: application/json`"
                raise HttpError(_UNSUPPORTED, INVALID_REQUEST, text)
        return accepted

    def require_events(self) -> None:
        """Check the headers of a GET.

        Raises:
            HttpError: If no stream of events would be accepted.
        """
        if not self.accepted.events:
            text = "the client must accept text/event-stream"
            raise HttpError(_NOT_ACCEPTABLE, INVALID_REQUEST, text)

    @property
    def announced_length(self) -> int:
        value = self._values.get(b"content-length", b"")
        return int(value) if value.isdigit() else 0


class HttpRequest:
    """A request, and the way to answer it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers = Headers(scope)
        self.send = send
        self.size = 0
        """Bytes of the body."""
        self._receive = receive

    async def json(self) -> JSONValue:
        """The whole body.

        Raises:
            HttpError: If it is too long, is not JSON, or has too many parts.
            DisconnectedError: If it does not come to its end.
        """
        if self.headers.announced_length > _LONGEST_BODY:
            raise _too_large()
        parts: list[bytes] = []
        is_more = True
        while is_more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise DisconnectedError
            parts.append(message.get("body", b""))
            self.size += len(parts[-1])
            if self.size > _LONGEST_BODY:
                raise _too_large()
            is_more = bool(message.get("more_body"))
        return _parsed(b"".join(parts))

    async def disconnected(self) -> None:
        """Wait until the client has closed its connection, or has its whole answer."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def not_a_message() -> HttpError:
    text = (
        "Invalid Request: the body must be one JSON-RPC 2.0 request, notification or response;"
        " a batch of them is accepted in a session of 2025-03-26 only"
    )
    return HttpError(_BAD, INVALID_REQUEST, text)


def _parsed(body: bytes) -> JSONValue:
    if answer := refusal(body):
        error = answer["error"]
        status = _BAD if answer["id"] is None else _OK
        raise HttpError(status, error["code"], error["message"], request_id=answer["id"])
    try:
        return decode_standard(body)
    except ValueError:
        text = "Parse error: the body is not JSON, or nests too deeply"
        raise HttpError(_BAD, PARSE_ERROR, text) from None


def _too_large() -> HttpError:
    text = f"INPUT_TOO_LONG: a message may have at most {_LONGEST_BODY:,} bytes"
    return HttpError(_TOO_LARGE, INVALID_REQUEST, text)
