"""HTTP requests of the handshake era, up to 2025-11-25: they belong to sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from discovery_engine.rpc.messages import Notification, Request
from discovery_engine.rpc.protocol import HEADER_MISMATCH, INVALID_REQUEST
from discovery_server.client_messages import as_incoming, is_response
from discovery_server.eras import has_envelope
from discovery_server.http.asgi import HttpError, respond
from discovery_server.http.mirrored_headers import VERSION
from discovery_server.http.request import not_a_message
from discovery_server.http.sessions import Session
from discovery_server.http.streams import EventStream, PostStream

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_server.gateway import Gateway
    from discovery_server.http.request import HttpRequest
    from discovery_server.http.sessions import Sessions
    from discovery_server.http.streams import OpenStreams

SESSION = b"mcp-session-id"
_OK, _ACCEPTED, _BAD, _NOT_FOUND, _CONFLICT, _UNAVAILABLE = 200, 202, 400, 404, 409, 503
_OVERLOADED = -32000
_RETRY_AFTER = (b"retry-after", b"1")


class SessionRequests:
    """Answers requests with a session, and opens one for each `initialize` without."""

    def __init__(self, sessions: Sessions, streams: OpenStreams) -> None:
        self._sessions = sessions
        self._streams = streams

    async def post(self, gateway: Gateway, user: str | None, request: HttpRequest) -> None:
        """Answer a POST.

        Raises:
            HttpError: If it is not valid.
            DisconnectedError: If its body does not come.
        """
        accepted = request.headers.require_message()
        if request.headers.get(SESSION) is None:
            await self._open(gateway, user, request, await request.json())
            return
        session = self._session(gateway, user, request)
        with self._sessions.used(session):
            value = await request.json()
            messages = _messages(value, session)
            if session.connection.is_busy:
                text = "too many requests of this session are not answered yet"
                raise HttpError(_UNAVAILABLE, _OVERLOADED, text, _RETRY_AFTER)
            stream = PostStream(accepted, is_batch=messages is value)
            for message in messages:
                session.connection.process(message, request.size // len(messages), stream)
            await self._respond(stream, request)

    async def get(self, gateway: Gateway, user: str | None, request: HttpRequest) -> None:
        """Answer a GET: with the stream of unsolicited messages, one for each session.

        Raises:
            HttpError: If it is not valid.
        """
        request.headers.require_events()
        session = self._session(gateway, user, request)
        if session.listening and not session.listening.is_closed:
            text = "Conflict: this session has a stream already"
            raise HttpError(_CONFLICT, INVALID_REQUEST, text)
        session.listening = session.connection.standalone = stream = EventStream()
        watch = asyncio.create_task(_close_on_disconnect(request, stream))
        try:
            with self._sessions.used(session), self._streams.opened(stream):
                await stream.respond(request.send)
        finally:
            watch.cancel()
            stream.close()
            if session.listening is stream:
                session.listening = session.connection.standalone = None

    async def delete(self, gateway: Gateway, user: str | None, request: HttpRequest) -> None:
        """Answer a DELETE, which ends a session.

        Raises:
            HttpError: If there is no such session.
        """
        session = self._session(gateway, user, request)
        await self._sessions.end(session)
        await respond(request.send, _OK, b"")

    async def _open(
        self, gateway: Gateway, user: str | None, request: HttpRequest, value: JSONValue
    ) -> None:
        message = as_incoming(value)
        if message is None and not is_response(value):
            raise not_a_message()
        if not isinstance(message, Request) or message.method != "initialize":
            raise _without_session(message)
        self._sessions.require_room()
        session = self._sessions.new(gateway, user)
        stream = PostStream(request.headers.accepted)
        session.connection.process(value, request.size, stream)
        if not session.connection.is_initialized:
            await stream.respond(request.send)
            return
        # It is added before the answer is sent: the client may use it at once.
        with self._sessions.opened(session):
            await stream.respond(request.send, (SESSION, session.id.encode()))
        await self._sessions.end_excess(session)

    def _session(self, gateway: Gateway, user: str | None, request: HttpRequest) -> Session:
        session_id = request.headers.get(SESSION)
        if session_id is None:
            text = "Bad Request: the header Mcp-Session-Id is missing"
            raise HttpError(_BAD, INVALID_REQUEST, text)
        if request.headers.is_repeated(SESSION):
            raise HttpError(_BAD, INVALID_REQUEST, "Bad Request: Mcp-Session-Id was sent twice")
        session = self._sessions.find(session_id, gateway, user)
        if session is None:
            text = "Session not found: it has ended; open another one with `initialize`"
            raise HttpError(_NOT_FOUND, INVALID_REQUEST, text)
        return session

    async def _respond(self, stream: PostStream, request: HttpRequest) -> None:
        if stream.is_empty:
            await respond(request.send, _ACCEPTED, b"")
        elif stream.is_open:
            with self._streams.opened(stream):
                await stream.respond(request.send)
        else:
            await stream.respond(request.send)


def _messages(value: JSONValue, session: Session) -> list[JSONValue]:
    """The one message of a body; or the body itself, if it is a batch and the session accepts one.

    Raises:
        HttpError: If anything else is there.
    """
    is_batch = isinstance(value, list) and len(value) > 0 and session.connection.accepts_batches
    messages: list[JSONValue] = value if is_batch else [value]
    if all(as_incoming(message) or is_response(message) for message in messages):
        return messages
    raise not_a_message()


def _without_session(message: Request | Notification | None) -> HttpError:
    """Why a message is refused that has neither a session nor the headers of 2026-07-28."""
    if isinstance(message, Request) and has_envelope(message.params or {}):
        text = f"Header mismatch: {VERSION.decode()} is missing, and the body has an envelope"
        return HttpError(_BAD, HEADER_MISMATCH, text, request_id=message.id)
    text = (
        "Bad Request: the header Mcp-Session-Id is missing; open a session with `initialize`, or"
        " send the headers and the envelope of 2026-07-28"
    )
    return HttpError(_BAD, INVALID_REQUEST, text)


async def _close_on_disconnect(request: HttpRequest, stream: EventStream) -> None:
    await request.disconnected()
    stream.close()
