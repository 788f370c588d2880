"""Serves the page: an address that opens a session, and files that are read once.

GET /?code=…        opens a session with a code that the gateway printed, and leads to /
GET /               the page; without a session, a form for a token, and why one was refused
GET /page/NAME      a file of it, with a session only
GET /favicon.ico    its icon
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from msgspec import Struct

from discovery_server.http.asgi import CLOSE, ICON_PATH, PAGE_PATH, respond, respond_text

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from discovery_server.http.asgi import Header, Receive, Scope, Send
    from discovery_server.http.browser_sessions import BrowserSessions
    from discovery_server.http.users import Refusal

_KINDS = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_IMPORTS = "{{imports}}"
_REFUSED = "{{refused}}"
_MISSING = (
    "There is no page, only the API at /api: the modules of other projects that the page uses are"
    " missing. In a clone of the repository `make servers` brings them with npm.\n"
)
_ICON = "icon.svg"
# What the form without a session has.
_PUBLIC = frozenset({_ICON, "login.js", "style.css", "theme.js", "tokens.css"})
_SMALL = 1024  # bytes; compressing less saves no packet
_FOREVER = b"private, max-age=0, must-revalidate"  # a newer version of the program has others
_SECURITY: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # `no-referrer` would take the origin off the form
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class PageFile(Struct, frozen=True):
    content: bytes
    compressed: bytes | None
    kind: bytes
    etag: bytes


class PageFiles(Struct, frozen=True):
    """All that is served; a path is only ever compared with these names."""

    by_name: dict[str, PageFile]
    index: bytes
    login: str
    policy: bytes
    """The Content-Security-Policy of the page."""

    @property
    def is_whole(self) -> bool:
        """True if the modules of other projects are there."""
        packages = json.loads(_resource("modules.json").read_text("utf-8"))["packages"]
        names = (file["to"] for package in packages for file in package["files"])
        return all(f"modules/{name}" in self.by_name for name in names if "LICENSE" not in name)


@cache
def load_files() -> PageFiles:
    imports = json.loads(_resource("modules.json").read_text("utf-8"))["imports"]
    addresses = {name: f"{PAGE_PATH}/modules/{file}" for name, file in imports.items()}
    script = json.dumps({"imports": addresses})
    static = _resource("static")
    index = static.joinpath("index.html").read_text("utf-8").replace(_IMPORTS, script)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self';"
        " img-src 'self' data:; media-src data:; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    )
    files = dict(_found(static, ""))
    login = static.joinpath("login.html").read_text("utf-8")
    return PageFiles(files, index.encode(), login, policy.encode())


class Page:
    """ASGI application of `/` and `/page`; those who have no session get the form alone."""

    def __init__(self, sessions: BrowserSessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        if scope["method"] not in ("GET", "HEAD"):
            await respond_text(send, 405, "Method Not Allowed", (b"allow", b"GET, HEAD"))
            return
        served = load_files()
        if not served.is_whole:
            await respond_text(send, 503, _MISSING, *_SECURITY)
        elif scope["path"] != "/":
            await self._file(served, scope, send)
        elif refusal := scope.get("refusal"):
            await self._refused(served, refusal, send)
        elif code := _code(scope):
            await self._redeem(served, code, scope, send)
        elif self._sessions.user_of(scope):
            await self._html(send, 200, served.index, served.policy)
        else:
            await self._html(send, 401, _login(served, ""), served.policy)

    async def _refused(self, served: PageFiles, refusal: Refusal, send: Send) -> None:
        """The form again, with what was wrong with the token and what to do."""
        headers: list[Header] = [CLOSE]
        text = refusal.text[:1].upper() + refusal.text[1:]
        if refusal.retry_after is not None:
            headers.append((b"retry-after", b"%d" % refusal.retry_after))
            text += f"; the next one is looked at in {refusal.retry_after} s"
        form = _login(served, f"{text}.")
        await self._html(send, refusal.status, form, served.policy, *headers)

    async def _redeem(self, served: PageFiles, code: str, scope: Scope, send: Send) -> None:
        headers: list[Header] = [(b"location", b"/"), (b"referrer-policy", b"same-origin")]
        if user := self._sessions.redeem(code):
            cookie = self._sessions.open_cookie(user, scope)
            if not isinstance(cookie, bytes):
                await self._refused(served, cookie, send)
                return
            headers.append((b"set-cookie", cookie))
        await respond(send, 303, b"", *headers)

    async def _file(self, served: PageFiles, scope: Scope, send: Send) -> None:
        path = scope["path"]
        name = _ICON if path == ICON_PATH else path.removeprefix(f"{PAGE_PATH}/")
        file = served.by_name.get(name)
        if file is None or not (name in _PUBLIC or self._sessions.user_of(scope)):
            await respond_text(send, 404, "Not Found", *_SECURITY)
            return
        request_headers = dict(scope["headers"])
        headers: list[Header] = [
            (b"etag", file.etag),
            (b"cache-control", _FOREVER),
            (b"vary", b"accept-encoding"),
            *_SECURITY,
        ]
        if request_headers.get(b"if-none-match") == file.etag:
            await respond(send, 304, b"", *headers)
            return
        headers.append((b"content-type", file.kind))
        content = file.content
        if file.compressed and b"gzip" in request_headers.get(b"accept-encoding", b""):
            content = file.compressed
            headers.append((b"content-encoding", b"gzip"))
        await respond(send, 200, content, *headers)

    async def _html(
        self, send: Send, status: int, content: bytes, policy: bytes, *further: Header
    ) -> None:
        headers: list[Header] = [
            (b"content-type", _KINDS["html"]),
            (b"content-security-policy", policy),
            (b"cache-control", b"no-store"),
            *_SECURITY,
            *further,
        ]
        await respond(send, status, content, *headers)


def _login(served: PageFiles, refused: str) -> bytes:
    return served.login.replace(_REFUSED, html.escape(refused)).encode()


def _code(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("code", [""])[0]


def _found(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    files = []
    for entry in folder.iterdir():
        name, suffix = f"{prefix}{entry.name}", entry.name.rpartition(".")[2]
        if entry.is_dir():
            files += _found(entry, f"{name}/")
        elif suffix in _KINDS and suffix != "html":
            files.append((name, _file(entry.read_bytes(), _KINDS[suffix])))
    return files


def _file(content: bytes, kind: bytes) -> PageFile:
    compressed = gzip.compress(content, mtime=0) if len(content) > _SMALL else None
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'.encode()
    return PageFile(content, compressed, kind, etag)


def _resource(name: str) -> Traversable:
    return files("discovery_server.page").joinpath(name)
