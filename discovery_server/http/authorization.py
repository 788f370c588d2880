"""The bearer token, required for every request before anything else is done with it.

An error says how to send the token and where it is stored; it never contains a token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from msgspec import Struct

from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.access_tokens import MCP_SCOPES
from discovery_server.http.asgi import CLOSE, JSON, header_values, respond

if TYPE_CHECKING:
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.http.asgi import ASGIApp, Receive, Scope, Send
    from discovery_server.tokens import Tokens

logger = logging.getLogger(__name__)

_CREDENTIALS = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_IN_ADDRESS = frozenset({"access_token", "token", "api_key", "apikey", "authorization"})
_ACCESS = " (access token)"  # behind the id, by which the log names a client
_MAX_LOGGED = 20  # refusals with different addresses or errors; more would be an attack


class Refusal(Struct, frozen=True):
    status: int
    error: str
    """The error code of RFC 6750; empty if the request just has no token."""
    description: str


class User(Struct, frozen=True):
    """Who has a token."""

    name: str
    view: str | None = None
    """The only view that its token opens; None for all."""


class Users:
    """Everybody with a valid token."""

    def __init__(self, tokens: Tokens, access: AccessTokens | None = None) -> None:
        """`access` are the tokens that may be created and revoked while this is served."""
        self._whereabouts = tokens.whereabouts
        self._own = {
            _digest(value.encode()): User(f"token {number}")
            for number, value in enumerate(tokens.values, 1)
        }
        self._access = access

    def of(self, headers: list[bytes]) -> User | Refusal:
        """Who sends the values of `Authorization`."""
        if not headers:
            how = "send it as the header `Authorization: Bearer TOKEN`"  # last: logs redact it
            return Refusal(401, "", f"a token is required; {self._whereabouts}; {how}")
        if len(headers) > 1:
            return Refusal(400, "invalid_request", "there is more than one Authorization header")
        match = _CREDENTIALS.fullmatch(headers[0])
        found = (self._owner_of(match[1]) or self._holder_of(match[1])) if match else None
        wrong = f"this is not the token of this gateway; {self._whereabouts}"
        return found or Refusal(401, "invalid_token", wrong)

    def has(self, name: str | None) -> bool:
        """Whether a user's token is still valid; all of a gateway's own are while it runs."""
        if name is None or self._access is None or not name.endswith(_ACCESS):
            return True
        return self._access.is_valid(name.removesuffix(_ACCESS))

    def _owner_of(self, given: bytes) -> User | None:
        # Digests have one length and all are compared, so the time reveals nothing about a token.
        digest, found = _digest(given), None
        for known, user in self._own.items():
            if hmac.compare_digest(known, digest):
                found = user
        return found

    def _holder_of(self, given: bytes) -> User | Refusal | None:
        token = self._access.find(given) if self._access else None
        if token is None or self._access is None:
            return None
        if self._access.is_expired(token):
            text = "this token has expired; `discovery token create` makes another one"
            return Refusal(401, "invalid_token", text)
        if not token.scopes >= MCP_SCOPES:
            return Refusal(403, "insufficient_scope", "this token is not for clients of MCP")
        return User(f"{token.id}{_ACCESS}", token.view)


class Authorization:
    """ASGI middleware that admits requests with a valid token, and names the user of that token.

    `scope["user"]` is the user's name, and `scope["view"]` the only view that the token opens.
    """

    def __init__(self, app: ASGIApp, users: Users) -> None:
        self._app = app
        self._users = users
        self._logged: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = self._user(scope)
        if isinstance(found, User):
            scope["user"], scope["view"] = found.name, found.view
            await self._app(scope, receive, send)
            return
        self._log(scope, found)
        await _refuse(found, send)

    def _user(self, scope: Scope) -> User | Refusal:
        if _names_token_in(scope["query_string"]):
            where = "a token is not taken from the address, which ends up in logs and histories"
            return Refusal(400, "invalid_request", f"{where}; send it as a header")
        return self._users.of(header_values(scope, b"authorization"))

    def _log(self, scope: Scope, refusal: Refusal) -> None:
        """Log a refusal once for each address: its owner only sees that nothing works."""
        host = scope["client"][0] if scope.get("client") else "a client"
        about = host, refusal.error
        if about not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(about)
            logger.warning(
                "A request from %s was refused (%d): %s", host, refusal.status, refusal.description
            )


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _names_token_in(query: bytes) -> bool:
    if not query:
        return False
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return any(name.strip().casefold() in _IN_ADDRESS for name, _ in pairs)


async def _refuse(refusal: Refusal, send: Send) -> None:
    challenge = 'Bearer realm="discovery"'
    if refusal.error:
        challenge += f', error="{refusal.error}"'
    content = {
        "error": refusal.error or "unauthorized",
        "error_description": refusal.description,
    }
    body = encode_finite(content)
    # Otherwise a stranger could hold a connection forever by sending one request after another.
    headers = (JSON, (b"www-authenticate", challenge.encode()), CLOSE)
    await respond(send, refusal.status, body, *headers)
