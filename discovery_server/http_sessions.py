"""The sessions of clients of the handshake era: so many, and none for ever.

A client opens a session with `initialize`, and may leave without closing it. What it leaves behind
costs memory here, and perhaps a program of its own with a server. So when there are too many, the
one that was idle the longest is ended, as if its client had closed it. Refusing the new one would
let abandoned sessions, or a client that opens one after the other, shut everybody else out. Only
when all are in use is a new one refused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

IDLE_LIFE = 600.0  # seconds; a client that listens for messages keeps its session by that
_ID = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_RETRY_AFTER = 5  # seconds


class _Session(Struct, eq=False):
    id: str
    user: object
    used_at: float
    requests: int = 0
    """Under way."""
    is_used: bool = False
    """Whether anything followed its opening."""

    @property
    def owner(self) -> str:
        return getattr(self.user, "username", "")


class Sessions:
    """Keeps count of the sessions that `app` opens, and ends what nobody needs."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        path: str,
        most: int,
        on_end: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count the sessions of an application.

        Args:
            app: The SDK's application.
            path: Where it serves MCP.
            most: How many sessions there may be.
            on_end: Called with the id of each session that has ended.
            clock: Seconds that never go back.
        """
        self._app = app
        self._path = path
        self._most = most
        self._on_end = on_end
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(raw=scope.get("headers", []))
        version = headers.get(_VERSION)
        has_sessions = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        if not has_sessions or scope.get("path") != self._path:
            await self._app(scope, receive, send)
        elif (id_ := headers.get(_ID)) is None:
            await self._serve_opening(scope, receive, send)
        else:
            await self._serve_session(id_, scope, receive, send)

    async def _serve_opening(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._in_use() >= self._most:
            await _refusal(self._most)(scope, receive, send)
            return
        opened: list[_Session] = []

        def note(answer: _Answer) -> None:
            # Before the client knows of it, which may use it at once.
            if answer.is_good and answer.session:
                session = _Session(answer.session, scope.get("user"), self._clock(), requests=1)
                self._sessions[session.id] = session
                opened.append(session)

        try:
            await self._app(scope, receive, _Answer(send, on_start=note).send)
        finally:
            for session in opened:
                session.requests -= 1
        if opened:
            await self._end_superfluous(but=opened[0])

    async def _serve_session(self, id_: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._sessions.get(id_)
        if session is None or session.user is not scope.get("user"):
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        session.requests += 1
        try:
            await self._app(scope, receive, answer.send)
        finally:
            session.requests -= 1
            session.is_used = True
            session.used_at = self._clock()
            if (scope["method"] == "DELETE" and answer.is_good) or answer.is_unknown:
                self._forget(session)

    async def _end_superfluous(self, *, but: _Session) -> None:
        """End what was idle for too long, and what is too many."""
        while (victim := self._abandoned(but)) or (victim := self._least_missed(but)):
            await self._end(victim)  # meanwhile another may be used again, or end

    def _abandoned(self, but: _Session) -> _Session | None:
        oldest = self._clock() - IDLE_LIFE
        return next((one for one in self._idle(but) if one.used_at < oldest), None)

    def _least_missed(self, but: _Session) -> _Session | None:
        """The one to end if there are too many; None if there are not, or all are in use.

        Of whoever has the most sessions, one never used if there is one, else the longest idle.

        So a client that opens one session after the other ends its own, before those of others.
        """
        if len(self._sessions) <= self._most:
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
        """Close it as its client would, which is the one way that the SDK offers."""
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


class _Answer:
    """What the application answered, noted on its way out."""

    def __init__(self, send: Send, on_start: Callable[[_Answer], None] = lambda _: None) -> None:
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


def _refusal(most: int) -> JSONResponse:
    message = f"all {most} sessions of this gateway are in use; try again in a moment"
    error = {"code": -32000, "message": message}
    content = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(content, 503, {"Retry-After": str(_RETRY_AFTER)})


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(message: Message) -> None:
    """Nobody waits for the answer."""
