"""A limit on the number and the idle time of HTTP sessions in the handshake era.

A client opens a session with `initialize`, and may leave without closing it. An abandoned session
costs memory, and perhaps a server process of its own. When there are too many, the one that was
idle longest is ended as if its client had closed it: refusing new sessions instead would let
abandoned ones, or one greedy client, lock out all others. A new session is refused only when all
are in use.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from discovery_engine.rpc.protocol import HANDSHAKE_VERSIONS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

IDLE_LIFE = 600.0  # seconds; a client with an open stream is not idle
_ID = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_RETRY_AFTER = 5  # seconds


class _Session(Struct, eq=False):
    id: str
    user: object
    used_at: float
    requests: int = 0
    """In flight."""
    is_used: bool = False
    """Whether a request followed the one that opened it."""

    @property
    def owner(self) -> str:
        return getattr(self.user, "username", "")


class SessionLimit:
    """ASGI middleware that counts the sessions of `app`, and ends idle ones."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        path: str,
        limit: int,
        on_end: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count the sessions of an application.

        Args:
            app: The SDK's application.
            path: Where it serves MCP.
            limit: The number of sessions.
            on_end: Called with the id of each session that has ended.
            clock: Monotonic, in seconds.
        """
        self._app = app
        self._path = path
        self._limit = limit
        self._on_end = on_end
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(raw=scope.get("headers", []))
        version = headers.get(_VERSION)
        has_sessions = version is None or version in HANDSHAKE_VERSIONS
        if not has_sessions or scope.get("path") != self._path:
            await self._app(scope, receive, send)
        elif (id_ := headers.get(_ID)) is None:
            await self._serve_opening(scope, receive, send)
        else:
            await self._serve_session(id_, scope, receive, send)

    async def _serve_opening(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._in_use() >= self._limit:
            await _refusal(self._limit)(scope, receive, send)
            return
        opened: list[_Session] = []

        def note(answer: _SessionResponse) -> None:
            # Before the answer is sent: the client may use the session at once.
            if answer.is_good and answer.session:
                session = _Session(answer.session, scope.get("user"), self._clock(), requests=1)
                self._sessions[session.id] = session
                opened.append(session)

        try:
            await self._app(scope, receive, _SessionResponse(send, on_start=note).send)
        finally:
            for session in opened:
                session.requests -= 1
        if opened:
            await self._end_excess(but=opened[0])

    async def _serve_session(self, id_: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._sessions.get(id_)
        if session is None or session.user is not scope.get("user"):
            await self._app(scope, receive, send)
            return
        answer = _SessionResponse(send)
        session.requests += 1
        try:
            await self._app(scope, receive, answer.send)
        finally:
            session.requests -= 1
            session.is_used = True
            session.used_at = self._clock()
            if (scope["method"] == "DELETE" and answer.is_good) or answer.is_unknown:
                self._forget(session)

    async def _end_excess(self, *, but: _Session) -> None:
        """End sessions that were idle too long, and those above the limit."""
        while (victim := self._abandoned(but)) or (victim := self._excess(but)):
            await self._end(victim)  # other sessions may change while this one is closed

    def _abandoned(self, but: _Session) -> _Session | None:
        oldest = self._clock() - IDLE_LIFE
        return next((one for one in self._idle(but) if one.used_at < oldest), None)

    def _excess(self, but: _Session) -> _Session | None:
        """The session to end if there are too many; None otherwise, or if all are in use.

        It belongs to the user with the most sessions: one that was never used, or else the one
        that was idle longest. So a client that opens many sessions ends its own first.
        """
        if len(self._sessions) <= self._limit:
            return None
        counts = Counter(one.owner for one in self._sessions.values())
        return min(
            self._idle(but),
            key=lambda one: (-counts[one.owner], one.is_used, one.used_at),
            default=None,
        )

    def _idle(self, but: _Session) -> Iterator[_Session]:
        return (one for one in self._sessions.values() if not one.requests and one is not but)

    async def _end(self, session: _Session) -> None:
        """Close it with a DELETE request as its client would: the SDK has no other interface."""
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "DELETE",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(_ID.encode(), session.id.encode())],
            "client": None,
            "server": None,
        }
        if session.user is not None:
            scope["user"] = session.user
        self._forget(session)
        await self._app(scope, _no_body, _ignore)

    def _forget(self, session: _Session) -> None:
        if self._sessions.pop(session.id, None):
            self._on_end(session.id)

    def _in_use(self) -> int:
        return sum(1 for session in self._sessions.values() if session.requests)


class _SessionResponse:
    """Reads status and session id of the answer that the application sends."""

    def __init__(
        self, send: Send, on_start: Callable[[_SessionResponse], None] = lambda _: None
    ) -> None:
        self._send = send
        self._on_start = on_start
        self._status = 0
        self.session: str | None = None

    @property
    def is_good(self) -> bool:
        return 200 <= self._status < 300  # noqa: PLR2004 - the statuses of success

    @property
    def is_unknown(self) -> bool:
        return self._status == 404  # noqa: PLR2004 - how the SDK says that a session is over

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self.session = Headers(raw=message.get("headers", [])).get(_ID)
            self._on_start(self)
        await self._send(message)


def _refusal(limit: int) -> JSONResponse:
    message = f"all {limit} sessions of this gateway are in use; try again in a moment"
    error = {"code": -32000, "message": message}
    content = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(content, 503, {"Retry-After": str(_RETRY_AFTER)})


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(message: Message) -> None:
    """The answer to our own request is not needed."""
