"""The ASGI application for MCP: `/mcp`, and whatever other paths have a gateway."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.rpc.protocol import HANDSHAKE_VERSIONS, INVALID_REQUEST
from discovery_server.http.asgi import HttpError, respond_text
from discovery_server.http.mirrored_headers import VERSION
from discovery_server.http.request import DisconnectedError, HttpRequest
from discovery_server.http.session_requests import SessionRequests
from discovery_server.http.stateless_requests import StatelessRequests
from discovery_server.http.streams import OpenStreams
from discovery_server.token_limits import NO_LIMITS, NO_PRINCIPALS

if TYPE_CHECKING:
    from discovery_server.gateway import Gateway
    from discovery_server.http.asgi import Receive, Scope, Send
    from discovery_server.http.relayed_clients import RelayedClients
    from discovery_server.http.sessions import Sessions
    from discovery_server.relay import Relay
    from discovery_server.request_state import StateSealer
    from discovery_server.token_limits import TokenLimits

logger = logging.getLogger(__name__)

_NOT_FOUND, _NOT_ALLOWED = 404, 405
_NOTHING_HERE = (
    "Not Found: nothing is served here for this client; ask the owner of this gateway for the"
    " address, and whether its view is still configured"
)
_LOOK = 1.0  # seconds between two looks for clients whose token or view has ended

IsOpen: TypeAlias = "Callable[[Gateway, str | None], bool]"


class StreamableHttp:
    """Serves each path that has a gateway, in both eras of the protocol."""

    def __init__(
        self,
        gateway_of: Callable[[str, str | None, TokenLimits, frozenset[str] | None], Gateway | None],
        sessions: Sessions,
        is_open: IsOpen = lambda *_: True,
        on_client_end: Callable[[str], object] = lambda _: None,
        sealer: StateSealer | None = None,
        relayed: tuple[Relay, RelayedClients] | None = None,
    ) -> None:
        """No session yet.

        Args:
            gateway_of: The gateway of a path, for a client that has only one view, or for any
                client, with the limits of its token, and the teams and the user that it stands
                for, None for the owner; None if there is nothing.
            sessions: Those of the handshake era.
            is_open: Whether a gateway is still there for a user.
            on_client_end: Called with the id of a client without a session for which it is not.
            sealer: As `ModernCalls` takes it.
            relayed: As `StatelessRequests` takes it.
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
        """End what is in progress for users whose token, or whose view, is there no more."""
        await self._sessions.end_closed(self._is_open)
        await self._stateless.end_closed(self._is_open)

    async def run(self) -> None:
        """End what has ended for its users, and answer other gateways, until cancelled."""
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
            except Exception:  # the next look may succeed; without one nothing would ever end
                logger.exception("Sessions of ended tokens and views were not closed")
