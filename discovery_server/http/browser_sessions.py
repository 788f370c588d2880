"""Sessions of browsers, which have no place for a token that scripts cannot read.

    POST /session   {"code": "…"}        a code of the printed address, which is valid once
    POST /session   Authorization: …     or a token; a form has it as its field `token`
    DELETE /session                      ends it

Both ways to open a session return a cookie that no script can read. A form that is refused is shown
again, with the reason.

Browsers send a cookie to every port of this machine, also with requests of pages from other ports.
So it is valid only for requests from the page of this very address.

Sessions and codes are files in the data folder. So they outlive a restart of the gateway, and a
command can make a code for a running gateway.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from discovery_engine.rpc.json_codec import decode_standard, encode_finite
from discovery_server.http.asgi import (
    CLOSE,
    JSON,
    header_values,
    respond,
    respond_text,
)
from discovery_server.http.client_addresses import client_host
from discovery_server.http.users import OWNER, Refusal, User
from discovery_server.token_files import PRIVATE, reason_of

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_server.http.asgi import ASGIApp, Receive, Scope, Send
    from discovery_server.http.users import Users

logger = logging.getLogger(__name__)

FOLDER = "browser-sessions"
ADDRESS = "address"  # the file with the address of the gateway that was started last
_COOKIE = "discovery_session"
_IDLE = 12 * 3600.0  # seconds until an idle session or an unused code expires
_NOTED = 60.0  # seconds; the last use is updated at most this often
_MAX_BROWSER_SESSIONS = 64  # sessions; a further one ends the least recently used
_LONGEST_BODY = 1 << 10  # bytes
_OWN_FETCH = frozenset({b"same-origin", b"none"})  # `none`: typed by the user


class BrowserSessions:
    """The sessions of all gateways with the same data folder, and the codes that open one.

    Each is a file that is named by the digest of its secret. It contains the user's name and an
    HMAC of the user's current token, with the secret as key: a session ends with that token, and
    the file reveals neither. The modification time of a file is the time of its last use.
    """

    def __init__(self, folder: Path, users: Users, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix time in seconds."""
        self._folder, self._users, self._clock = folder, users, clock

    def new_code(self, user: User) -> str:
        """Return a code with which one browser may open a session for a user.

        Raises:
            OSError: If it cannot be stored.
        """
        return self._create("code", secrets.token_urlsafe(24), user)

    def new_link(self, address: str = "") -> str:
        """Return an address that opens the page once, as the owner.

        Args:
            address: The address of MCP, which is stored; empty for the one that was stored last.

        Raises:
            OSError: If nothing can be stored, or no address was stored (`FileNotFoundError`).
        """
        path = self._folder / ADDRESS
        if address:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(address, "utf-8")
        origin = path.read_text("utf-8").removesuffix("/mcp")
        return f"{origin}/?code={self.new_code(OWNER)}"

    def open(self, user: User) -> str:
        """Open a session; returns its id.

        Raises:
            OSError: If it cannot be stored.
        """
        return self._create("session", secrets.token_urlsafe(32), user)

    def open_cookie(self, user: User, scope: Scope) -> bytes | Refusal:
        """Open a session; return its `Set-Cookie` value, or a refusal if it cannot be stored."""
        try:
            return _cookie(self.open(user), int(_IDLE), scope)
        except OSError as error:
            logger.warning("No session can be stored in %s: %s", self._folder, reason_of(error))
            text = "the gateway cannot store a session"
            return Refusal(503, "", text, "its log says why")

    def redeem(self, code: str) -> User | None:
        """Use up a code, and return its user; None if it is invalid."""
        user = self._user("code", code)
        try:
            self._path("code", code).unlink()  # of two browsers one succeeds
        except OSError:
            return None
        return user

    def close(self, scope: Scope) -> None:
        """End the session of a request; no-op if it has none."""
        for session in _ids(scope):
            self._path("session", session).unlink(missing_ok=True)

    def user_of(self, scope: Scope) -> User | None:
        """Return the user of a request's cookie; None if another page sends the request."""
        if not is_own_page(scope):
            return None
        users = (self._user("session", session) for session in _ids(scope))
        return next((user for user in users if user), None)

    def _create(self, kind: str, secret: str, user: User) -> str:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room(kind)
        path, now = self._path(kind, secret), self._clock()
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{self._proof(secret, user.name)} {user.name}")
        os.utime(path, (now, now))
        return secret

    def _make_room(self, kind: str) -> None:
        """Remove expired files, and the least recently used ones if there are too many."""
        times = {}
        for path in self._folder.glob(f"{kind}-*"):
            with suppress(OSError):  # another gateway removed it
                times[path] = path.stat().st_mtime
        paths = sorted(times, key=times.__getitem__, reverse=True)
        for position, path in enumerate(paths, 1):
            if position >= _MAX_BROWSER_SESSIONS or self._clock() - times[path] > _IDLE:
                path.unlink(missing_ok=True)

    def _user(self, kind: str, secret: str) -> User | None:
        """Return the user of a valid secret, and note that it was used."""
        path, now = self._path(kind, secret), self._clock()
        try:
            idle = now - path.stat().st_mtime
            proof, _, name = path.read_text("utf-8").partition(" ")
        except (OSError, ValueError):
            return None
        if idle > _IDLE or not hmac.compare_digest(proof, self._proof(secret, name)):
            return None
        if idle > _NOTED:
            with suppress(OSError):  # the session only ends sooner
                os.utime(path, (now, now))
        return self._users.known(name, self._users.mark(name))

    def _proof(self, secret: str, name: str) -> str:
        """Return an HMAC that binds a secret to a user, and to the user's current token."""
        text = f"{name} {self._users.mark(name)}"
        return hmac.new(secret.encode(errors="replace"), text.encode(), hashlib.sha256).hexdigest()

    def _path(self, kind: str, secret: str) -> Path:
        # Named by its digest, so that the time of a lookup reveals nothing about the secret.
        digest = hashlib.sha256(secret.encode(errors="replace")).hexdigest()
        return self._folder / f"{kind}-{digest}"


class SessionEndpoint:
    """ASGI application that opens and ends sessions."""

    def __init__(self, sessions: BrowserSessions, users: Users, page: ASGIApp) -> None:
        """`page` shows a refused form again, with the reason in `scope["refusal"]`."""
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
        outcome: User | Refusal | bytes
        if is_form:
            outcome = self._users.of([b"Bearer " + await _field(receive, "token")], address)
        elif headers:
            outcome = self._users.of(headers, address)
        else:
            outcome = await self._redeemed(receive, address)
        if isinstance(outcome, User):
            outcome = self._sessions.open_cookie(outcome, scope)
        if isinstance(outcome, Refusal):
            if is_form and _wants_html(scope):
                form = {"method": "GET", "path": "/", "query_string": b"", "refusal": outcome}
                await self._page({**scope, **form}, receive, send)
            else:
                await _refuse(outcome, send)
            return
        if is_form:
            await respond(send, 303, b"", (b"location", b"/"), (b"set-cookie", outcome))
        else:
            await respond(send, 204, b"", (b"set-cookie", outcome))

    async def _redeemed(self, receive: Receive, address: str) -> User | Refusal:
        code = await _code(receive)
        if code and (user := self._sessions.redeem(code)):
            return user
        text, hint = "this address was used already", "use the token, or `discovery token link`"
        return self._users.refuse_wrong(address, Refusal(401, "invalid_code", text, hint))


async def _refuse(refusal: Refusal, send: Send) -> None:
    content = {"code": refusal.error, "message": refusal.description, "hint": refusal.hint}
    headers = [JSON, CLOSE]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after))
    await respond(send, refusal.status, encode_finite(content), *headers)


def is_own_page(scope: Scope) -> bool:
    """Return whether the request is from the page of this address, or typed by the user.

    Checks `Sec-Fetch-Site`, which no script can set, and `Origin`, which contains the port.
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
    """Return the session ids in the cookies of a request."""
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
    """Return a field of a form; empty if the form does not have it."""
    fields = parse_qs(await _body(receive))
    return fields.get(name.encode(), [b""])[0].strip()


async def _code(receive: Receive) -> str | None:
    """Return the code in a JSON body; None if there is none."""
    try:
        body = decode_standard(await _body(receive))
    except ValueError:
        return None
    code = body.get("code") if isinstance(body, dict) else None
    return code if isinstance(code, str) else None


async def _body(receive: Receive) -> bytes:
    """Read a whole body; empty if it is too long."""
    body = b""
    is_more = True
    while is_more:
        message = await receive()
        body += message.get("body", b"")
        is_more = bool(message.get("more_body")) and len(body) <= _LONGEST_BODY
    return body if len(body) <= _LONGEST_BODY else b""
