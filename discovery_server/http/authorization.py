"""A valid token, or a session of a browser, before anything else is done with a request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.http.asgi import (
    CLOSE,
    JSON,
    api_error,
    header_values,
    is_of_api,
    refuse_websocket,
    respond,
)
from discovery_server.http.client_addresses import client_host
from discovery_server.http.users import Refusal, User

if TYPE_CHECKING:
    from discovery_server.http.asgi import ASGIApp, Message, Receive, Scope, Send
    from discovery_server.http.browser_sessions import BrowserSessions
    from discovery_server.http.users import Users

logger = logging.getLogger(__name__)

_IN_ADDRESS = frozenset({"access_token", "token", "api_key", "apikey", "authorization"})
_CODES = {
    400: "INVALID_REQUEST",
    401: "UNAUTHORIZED",
    403: "SCOPE_MISSING",
    429: "RATE_LIMITED",
}
_LOOK = 1.0  # seconds between two looks whether the token of a request has ended
_POLICY = 1008  # the code with which a WebSocket is closed then
_ENDED = "its token was revoked, or has expired"
_MAX_LOGGED = 20  # refusals with different addresses or errors; more would be an attack


class Authorization:
    """ASGI middleware that admits requests with a valid token, and names the user of that token.

    `scope["user"]` is the user's name, `scope["view"]` the only view that the token opens,
    `scope["limits"]` the servers and tools that it shows, `scope["scopes"]` what it allows, and
    `scope["principals"]` the teams and the user that it stands for; None for the owner.
    The session of a browser counts as the token that opened it.
    """

    def __init__(self, app: ASGIApp, users: Users, sessions: BrowserSessions | None = None) -> None:
        self._app = app
        self._users = users
        self._sessions = sessions
        self._logged: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outcome = self._user(scope)
        if isinstance(outcome, User):
            scope["user"], scope["view"] = outcome.name, outcome.view
            scope["limits"], scope["scopes"] = outcome.limits, outcome.scopes
            scope["principals"] = outcome.principals
            if scope["type"] == "websocket" or (is_of_api(scope) and not outcome.is_owner):
                await _Followed(self._app, self._users, outcome.name).serve(scope, receive, send)
            else:
                await self._app(scope, receive, send)
            return
        self._log(scope, outcome)
        if scope["type"] == "websocket":
            await refuse_websocket(send)
        else:
            await _refuse(outcome, scope, send)

    def _user(self, scope: Scope) -> User | Refusal:
        if _names_token_in(scope["query_string"]):
            where = "a token is not taken from the address, which ends up in logs and histories"
            return Refusal(400, "invalid_request", where, "send it as a header")
        headers = header_values(scope, b"authorization")
        user = self._sessions.user_of(scope) if self._sessions and not headers else None
        if user and self._users.has(user.name):  # its token may have been revoked
            return user
        return self._users.of(headers, client_host(scope))

    def _log(self, scope: Scope, refusal: Refusal) -> None:
        """Log a refusal once for each address: its owner only sees that nothing works."""
        host = scope["client"][0] if scope.get("client") else "a client"
        about = host, refusal.error
        if about not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(about)
            logger.warning(
                "A request from %s was refused (%d): %s", host, refusal.status, refusal.text
            )


class _Followed:
    """One request that may last, and that ends soon after its token.

    What an owner changes is not ended in the middle: only WebSockets of theirs are.
    """

    def __init__(self, app: ASGIApp, users: Users, user: str) -> None:
        self._app = app
        self._users = users
        self._user = user
        self._has_begun = False
        """True if the answer has begun."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            self._has_begun = True
            await send(message)

        async with open_task_group() as tasks:
            tasks.start_soon(self._watch, tasks.cancel_scope)
            await self._app(scope, receive, sent)
            tasks.cancel_scope.cancel()
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY, "reason": _ENDED})
        elif not self._has_begun:
            await _refuse(Refusal(401, "invalid_token", _ENDED), scope, send)

    async def _watch(self, serving: anyio.CancelScope) -> None:
        while True:
            await anyio.sleep(_LOOK)
            if not self._users.has(self._user):
                serving.cancel()


class RequiredScopes:
    """ASGI middleware that refuses tokens which do not allow all of some scopes."""

    def __init__(self, app: ASGIApp, scopes: frozenset[str], purpose: str) -> None:
        """`purpose` is what such a token is for, for instance `clients of MCP`."""
        self._app = app
        self._scopes = scopes
        needed = ", ".join(sorted(scopes))
        options = " ".join(f"--scope {scope}" for scope in sorted(scopes))
        self._refusal = Refusal(
            403,
            "insufficient_scope",
            f"this token is not for {purpose}",
            f"`discovery token create {options}` makes one that is",
            needed=needed,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["scopes"] >= self._scopes:
            await _refuse(self._refusal, scope, send)
            return
        await self._app(scope, receive, send)


def _names_token_in(query: bytes) -> bool:
    if not query:
        return False
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return any(name.strip().casefold() in _IN_ADDRESS for name, _ in pairs)


async def _refuse(refusal: Refusal, scope: Scope, send: Send) -> None:
    """Refuse with an error of the API below its paths, of OAuth elsewhere."""
    challenge = 'Bearer realm="discovery"'
    if refusal.error:
        challenge += f', error="{refusal.error}"'
    if is_of_api(scope):
        facts = {"needed": refusal.needed} if refusal.needed else {}
        body = api_error(_CODES[refusal.status], refusal.description, refusal.hint, **facts)
    else:
        content = {"error": refusal.error or "unauthorized", "error_description": refusal.text}
        body = encode_finite(content)
    # Otherwise a stranger could hold a connection forever by sending one request after another.
    headers = [JSON, (b"www-authenticate", challenge.encode()), CLOSE]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after))
    await respond(send, refusal.status, body, *headers)
