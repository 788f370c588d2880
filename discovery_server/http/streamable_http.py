"""The ASGI application for MCP over streamable HTTP, at `/mcp` and the paths of views."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.rpc.messages import Notification, Request
from discovery_engine.rpc.protocol import HANDSHAKE_VERSIONS, HEADER_MISMATCH, INVALID_REQUEST
from discovery_server.access_token import NO_LIMITS, NO_PRINCIPALS
from discovery_server.client_messages import as_incoming, is_response
from discovery_server.eras import has_envelope
from discovery_server.http.asgi import HttpError, respond, respond_text
from discovery_server.http.mirrored_headers import VERSION
from discovery_server.http.request import DisconnectedError, HttpRequest, not_a_message
from discovery_server.http.sessions import Session
from discovery_server.http.stateless_requests import StatelessRequests
from discovery_server.http.streams import EventStream, OpenStreams, PostStream

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_server.access_token import TokenLimits
    from discovery_server.gateway import Gateway
    from discovery_server.http.asgi import Receive, Scope, Send
    from discovery_server.http.sessions import Sessions
    from discovery_server.http.stateless_requests import RelayedClients
    from discovery_server.relay import Relay
    from discovery_server.request_state import StateSealer

logger = logging.getLogger(__name__)

_NOT_ALLOWED = 405
_NOTHING_HERE = (
    "Not Found: nothing is served here for this client; ask the owner of this gateway for the"
    " address, and whether its view is still configured"
)
_LOOK = 1.0  # seconds between two checks for clients whose token or view has ended

IsOpen: TypeAlias = "Callable[[Gateway, str | None], bool]"


class StreamableHttp:
    """Serves MCP at each path that has a gateway, in both eras of the protocol."""

    def __init__(
        self,
        gateway_of: Callable[[str, str | None, TokenLimits, frozenset[str] | None], Gateway | None],
        sessions: Sessions,
        is_open: IsOpen = lambda *_: True,
        on_client_end: Callable[[str], object] = lambda _: None,
        sealer: StateSealer | None = None,
        relayed: tuple[Relay, RelayedClients] | None = None,
    ) -> None:
        """Create the application without sessions.

        Args:
            gateway_of: Returns the gateway of a path, or None. Its further arguments are the only
                view of the client's token (None for all), the limits of the token, and the teams
                and user that it stands for (None for the owner).
            sessions: The sessions of the handshake era.
            is_open: Returns whether a user may still use a gateway.
            on_client_end: Called with the id of a client without a session that no longer may.
            sealer: See `ModernCalls`.
            relayed: See `StatelessRequests`.
        """
        self._gateway_of = gateway_of
        self._sessions = sessions
        self._is_open = is_open
        streams = OpenStreams()
        self._in_session = SessionRequests(sessions, streams)
        self._stateless = StatelessRequests(streams, on_client_end, sealer, relayed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits = scope.get("limits", NO_LIMITS)
        principals = scope.get("principals", NO_PRINCIPALS)
        gateway = self._gateway_of(scope["path"], scope.get("view"), limits, principals)
        if gateway is None:
            await respond_text(send, _NOT_FOUND, _NOTHING_HERE)
            return
        try:
            await self._serve(gateway, scope, HttpRequest(scope, receive, send))
        except HttpError as refusal:
            await refusal.send(send)
        except DisconnectedError:
            logger.debug("A client has left before its request was complete")

    async def _serve(self, gateway: Gateway, scope: Scope, request: HttpRequest) -> None:
        user = scope.get("user")
        version = request.headers.get(VERSION)
        is_modern = version is not None and version not in HANDSHAKE_VERSIONS
        match scope["method"]:
            case "POST" if is_modern:
                await self._stateless.post(gateway, user, request)
            case "POST":
                await self._in_session.post(gateway, user, request)
            case "GET" if not is_modern:
                await self._in_session.get(gateway, user, request)
            case "DELETE" if not is_modern:
                await self._in_session.delete(gateway, user, request)
            case _:
                allowed = b"POST" if is_modern else b"GET, POST, DELETE"
                text = "Method Not Allowed"
                raise HttpError(_NOT_ALLOWED, INVALID_REQUEST, text, (b"allow", allowed))

    async def end_closed(self) -> None:
        """End the sessions, calls and streams of users whose token or view has ended."""
        await self._sessions.end_closed(self._is_open)
        await self._stateless.end_closed(self._is_open)

    async def run(self) -> None:
        """Call `end_closed` every second, and serve relayed requests, until cancelled."""
        async with open_task_group() as tasks:
            tasks.start_soon(self._keep_ending)
            tasks.start_soon(self._stateless.serve_relayed)

    async def close(self) -> None:
        """End all sessions and unfinished calls."""
        await self._sessions.close()
        await self._stateless.close()

    async def _keep_ending(self) -> None:
        while True:
            await anyio.sleep(_LOOK)
            try:
                await self.end_closed()
            except Exception:  # the next check may succeed; the loop must go on
                logger.exception("Sessions of ended tokens and views were not closed")


# Requests of the handshake era, up to 2025-11-25: they belong to sessions.

SESSION = b"mcp-session-id"
_OK, _ACCEPTED, _BAD, _NOT_FOUND, _CONFLICT, _UNAVAILABLE = 200, 202, 400, 404, 409, 503
_OVERLOADED = -32000
_RETRY_AFTER = (b"retry-after", b"1")


class SessionRequests:
    """Answers requests of sessions, and opens a session for each `initialize` without one."""

    def __init__(self, sessions: Sessions, streams: OpenStreams) -> None:
        self._sessions = sessions
        self._streams = streams

    async def post(self, gateway: Gateway, user: str | None, request: HttpRequest) -> None:
        """Answer a POST.

        Raises:
            HttpError: If the request is invalid, or its session does not exist or is busy.
            DisconnectedError: If the client disconnects before its body is complete.
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
        """Answer a GET with the stream of unsolicited messages, of which a session has only one.

        Raises:
            HttpError: If the request is invalid, or its session does not exist or has a stream.
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
        # The session is added before the answer is sent: the client may use it at once.
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
    """Return the messages of a body: a single one, or a batch if the session accepts batches.

    Raises:
        HttpError: If the body is neither.
    """
    is_batch = isinstance(value, list) and len(value) > 0 and session.connection.accepts_batches
    messages: list[JSONValue] = value if is_batch else [value]
    if all(as_incoming(message) or is_response(message) for message in messages):
        return messages
    raise not_a_message()


def _without_session(message: Request | Notification | None) -> HttpError:
    """Return the error for a message with neither a session nor the headers of 2026-07-28."""
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
