"""Sessions of browsers, which cannot keep a token where no script reads it.

    POST /session   {"code": "…"}        a code of the printed address, which is valid once
    POST /session   Authorization: …     or a token; a form has it as its field `token`
    DELETE /session                      ends it

A browser whose form is refused gets the form again, with the reason.
Either is answered with a cookie that no script can read. A cookie is sent to every port of this
machine, and with requests of pages of every port: so it is valid only for requests that the page
of this very address made.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from cachetools import TTLCache

from discovery_engine.rpc.json_codec import decode_standard, encode_finite
from discovery_server.http.asgi import (
    CLOSE,
    JSON,
    header_values,
    respond,
    respond_text,
)
from discovery_server.http.client_addresses import client_host
from discovery_server.http.users import Refusal, User

if TYPE_CHECKING:
    from discovery_server.http.asgi import ASGIApp, Receive, Scope, Send
    from discovery_server.http.users import Users

_COOKIE = "discovery_session"
_IDLE = 12 * 3600.0  # seconds without a request after which a session ends
_MAX_BROWSER_SESSIONS = 64  # sessions; the one that was not used for longest ends
_LONGEST_BODY = 1 << 10  # bytes
_OWN_FETCH = frozenset({b"same-origin", b"none"})  # `none`: typed by the user


class BrowserSessions:
    """The sessions of one gateway; they end with it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._codes: dict[bytes, User] = {}
        self._sessions: TTLCache[bytes, User] = TTLCache(_MAX_BROWSER_SESSIONS, _IDLE, timer=clock)

    def new_code(self, user: User) -> str:
        """A code with which one browser may open a session for a user."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = user
        return code

    def open(self, user: User) -> str:
        """A new session; returns its id."""
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session)] = user
        return session

    def open_cookie(self, user: User, scope: Scope) -> bytes:
        """The value of `Set-Cookie` with which the browser of a request has a new session."""
        return _cookie(self.open(user), int(_IDLE), scope)

    def redeem(self, code: str) -> User | None:
        """The user of a code, which is invalid from now on; None if it is none."""
        return self._codes.pop(_digest(code), None)

    def close(self, scope: Scope) -> None:
        """End the session of a request; no-op if it has none."""
        for session in _ids(scope):
            self._sessions.pop(_digest(session), None)

    def user_of(self, scope: Scope) -> User | None:
        """Who sends a request with a cookie, if the page of this address makes it."""
        if not is_own_page(scope):
            return None
        for digest in map(_digest, _ids(scope)):
            if user := self._sessions.get(digest):
                self._sessions[digest] = user  # from now on it is idle
                return user
        return None


class SessionEndpoint:
    """ASGI application that opens and ends sessions."""

    def __init__(self, sessions: BrowserSessions, users: Users, page: ASGIApp) -> None:
        """`page` shows the form of a browser again, with `scope["refusal"]`."""
        self._sessions = sessions
        self._users = users
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_own_page(scope):
            await respond_text(send, 403, "sessions are for the page of this address")
        elif scope["method"] == "POST":
            await self._open(scope, receive, send)
        elif scope["method"] == "DELETE":
            self._sessions.close(scope)
            await respond(send, 204, b"", (b"set-cookie", _cookie("", 0, scope)))
        else:
            await respond_text(send, 405, "Method Not Allowed", (b"allow", b"POST, DELETE"))

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, is_form = header_values(scope, b"authorization"), _is_form(scope)
        address = client_host(scope)
        if is_form:
            outcome = self._users.of([b"Bearer " + await _field(receive, "token")], address)
        elif headers:
            outcome = self._users.of(headers, address)
        else:
            outcome = await self._redeemed(receive, address)
        if isinstance(outcome, Refusal):
            if is_form and _wants_html(scope):
                form = {"method": "GET", "path": "/", "query_string": b"", "refusal": outcome}
                await self._page({**scope, **form}, receive, send)
            else:
                await _refuse(outcome, send)
            return
        cookie = self._sessions.open_cookie(outcome, scope)
        if is_form:
            await respond(send, 303, b"", (b"location", b"/"), (b"set-cookie", cookie))
        else:
            await respond(send, 204, b"", (b"set-cookie", cookie))

    async def _redeemed(self, receive: Receive, address: str) -> User | Refusal:
        code = await _code(receive)
        if code and (user := self._sessions.redeem(code)):
            return user
        text, hint = "this address was used already", "use the token, or start the gateway again"
        return self._users.refuse_wrong(address, Refusal(401, "invalid_code", text, hint))


async def _refuse(refusal: Refusal, send: Send) -> None:
    content = {"code": refusal.error, "message": refusal.description, "hint": refusal.hint}
    headers = [JSON, CLOSE]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after))
    await respond(send, refusal.status, encode_finite(content), *headers)


def is_own_page(scope: Scope) -> bool:
    """Return whether no page other than this address's own makes the request.

    It checks `Sec-Fetch-Site`, which no script can set, and `Origin`, which has the port as well.
    """
    hosts, origins = header_values(scope, b"host"), header_values(scope, b"origin")
    sites = header_values(scope, b"sec-fetch-site")
    if not origins:
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        return bool(sites) and set(sites) <= _OWN_FETCH and is_read
    is_same = len(origins) == len(hosts) == 1 and _authority(origins[0]) == hosts[0].lower()
    return is_same and set(sites) <= _OWN_FETCH


def _authority(origin: bytes) -> bytes:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return b""


def _ids(scope: Scope) -> list[str]:
    """The ids in the cookies of a request."""
    pairs = (
        pair.strip().partition("=")
        for header in header_values(scope, b"cookie")
        for pair in header.decode("latin-1").split(";")
    )
    return [value for name, _, value in pairs if name == _COOKIE]


def _cookie(session: str, seconds: int, scope: Scope) -> bytes:
    cookie = f"{_COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}"
    return f"{cookie}{'; Secure' if _is_encrypted(scope) else ''}".encode()


def _is_encrypted(scope: Scope) -> bool:
    """Return whether the browser uses HTTPS, to this server or to a proxy before it."""
    origins = header_values(scope, b"origin")
    return scope.get("scheme") == "https" or any(
        origin.startswith(b"https://") for origin in origins
    )


def _is_form(scope: Scope) -> bool:
    return header_values(scope, b"content-type") == [b"application/x-www-form-urlencoded"]


def _wants_html(scope: Scope) -> bool:
    return any(b"text/html" in value.lower() for value in header_values(scope, b"accept"))


async def _field(receive: Receive, name: str) -> bytes:
    """A field of a form; empty if it has none."""
    fields = parse_qs(await _body(receive))
    return fields.get(name.encode(), [b""])[0].strip()


async def _code(receive: Receive) -> str | None:
    """The code in a body of JSON; None if it holds none."""
    try:
        body = decode_standard(await _body(receive))
    except ValueError:
        return None
    code = body.get("code") if isinstance(body, dict) else None
    return code if isinstance(code, str) else None


async def _body(receive: Receive) -> bytes:
    """A whole body; empty if it is too long."""
    body = b""
    is_more = True
    while is_more:
        message = await receive()
        body += message.get("body", b"")
        is_more = bool(message.get("more_body")) and len(body) <= _LONGEST_BODY
    return body if len(body) <= _LONGEST_BODY else b""


def _digest(text: str) -> bytes:
    # Looked up by its digest, so that the time of a comparison says nothing about an id.
    return hashlib.sha256(text.encode(errors="replace")).digest()
