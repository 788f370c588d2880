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
from discovery_server.http.asgi import CLOSE, JSON, header_values, respond

if TYPE_CHECKING:
    from discovery_server.http.asgi import ASGIApp, Receive, Scope, Send
    from discovery_server.tokens import Tokens

logger = logging.getLogger(__name__)

_CREDENTIALS = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_IN_ADDRESS = frozenset({"access_token", "token", "api_key", "apikey", "authorization"})
_MAX_LOGGED = 20  # refusals with different addresses or errors; more would be an attack


class _Refusal(Struct, frozen=True):
    status: int
    error: str
    """The error code of RFC 6750; empty if the request just has no token."""
    description: str


class Authorization:
    """ASGI middleware that admits requests with a valid token, and names the user of that token.

    `scope["user"]` is the user's name.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._whereabouts = tokens.whereabouts
        self._users = {
            _digest(value.encode()): f"token {number}"
            for number, value in enumerate(tokens.values, 1)
        }
        self._logged: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = self._user(scope)
        if isinstance(found, str):
            scope["user"] = found
            await self._app(scope, receive, send)
            return
        self._log(scope, found)
        await _refuse(found, send)

    def _user(self, scope: Scope) -> str | _Refusal:
        if _names_token_in(scope["query_string"]):
            where = "a token is not taken from the address, which ends up in logs and histories"
            return _Refusal(400, "invalid_request", f"{where}; send it as a header")
        headers = header_values(scope, b"authorization")
        if not headers:
            how = "send it as the header `Authorization: Bearer TOKEN`"  # last: logs redact it
            return _Refusal(401, "", f"a token is required; {self._whereabouts}; {how}")
        if len(headers) > 1:
            return _Refusal(400, "invalid_request", "there is more than one Authorization header")
        match = _CREDENTIALS.fullmatch(headers[0])
        user = self._user_of(match[1]) if match else None
        wrong = f"this is not the token of this gateway; {self._whereabouts}"
        return user or _Refusal(401, "invalid_token", wrong)

    def _user_of(self, given: bytes) -> str | None:
        # Digests have one length and all are compared, so the time reveals nothing about a token.
        digest, found = _digest(given), None
        for known, user in self._users.items():
            if hmac.compare_digest(known, digest):
                found = user
        return found

    def _log(self, scope: Scope, refusal: _Refusal) -> None:
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


async def _refuse(refusal: _Refusal, send: Send) -> None:
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
