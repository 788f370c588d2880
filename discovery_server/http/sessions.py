"""The HTTP sessions of clients in the handshake era, with limits on their number and idle time.

A client opens a session with `initialize`, and may leave without closing it. An abandoned session
costs memory, and perhaps a server process of its own. When there are too many, the one that was
idle longest is ended as if its client had closed it: refusing new sessions instead would let
abandoned ones, or one greedy client, lock out all others. A new session is refused only when all
are in use.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from discovery_server.client_connection import ClientConnection
from discovery_server.http.asgi import HttpError

if TYPE_CHECKING:
    from discovery_server.gateway import Gateway
    from discovery_server.http.streams import EventStream

IDLE_LIFE = 600.0  # seconds; a client with an open stream is not idle
_ID_LENGTH = 16  # bytes
_RETRY_AFTER = b"5"  # seconds
_UNAVAILABLE, _OVERLOADED = 503, -32000


class Session:
    """The state that the requests with one session id share."""

    __slots__ = (
        "connection",
        "gateway",
        "id",
        "is_used",
        "listening",
        "requests",
        "used_at",
        "user",
    )

    def __init__(self, gateway: Gateway, user: str | None, *, at: str = "") -> None:
        """`at` is the name of this gateway, if it has one."""
        self.id = secrets.token_hex(_ID_LENGTH) + (at and f".{at}")
        self.gateway = gateway
        self.user = user
        """The only one for whom it exists; None if no token is required."""
        self.connection = ClientConnection(gateway, client=self.id)
        self.listening: EventStream | None = None
        """The stream of its GET request."""
        self.requests = 0
        """In flight, with the GET request."""
        self.used_at = 0.0
        self.is_used = False
        """True if a request followed the one that opened it."""


class Sessions:
    """All open sessions of a server."""

    def __init__(
        self,
        limit: int,
        on_end: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        *,
        at: str = "",
    ) -> None:
        """No session yet.

        Args:
            limit: Their number.
            on_end: Called with the id of each session that has ended.
            clock: Monotonic, in seconds.
            at: The name of this gateway, with which the ids of its sessions end.
        """
        self._at = at
        self._limit = limit
        self._on_end = on_end
        self._clock = clock
        self._open: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._open)

    def new(self, gateway: Gateway, user: str | None) -> Session:
        """A session that is not open yet."""
        return Session(gateway, user, at=self._at)

    def find(self, session_id: str, gateway: Gateway, user: str | None) -> Session | None:
        """A session of a user; None if it does not exist for that user."""
        session = self._open.get(session_id)
        is_theirs = session and session.user == user and session.gateway is gateway
        return session if session and is_theirs and not self._is_abandoned(session) else None

    @contextmanager
    def used(self, session: Session) -> Iterator[None]:
        """While a request of a session is in flight, it is not ended for being idle."""
        session.is_used = True
        with self._in_flight(session):
            yield

    @contextmanager
    def opened(self, session: Session) -> Iterator[None]:
        """Add a session, while the request that opens it is in flight."""
        self._open[session.id] = session
        with self._in_flight(session):
            yield

    def require_room(self) -> None:
        """Check that a session may be opened.

        Raises:
            HttpError: If all are in use.
        """
        in_use = sum(1 for session in self._open.values() if session.requests)
        if in_use >= self._limit:
            text = f"all {self._limit} sessions of this gateway are in use; try again in a moment"
            raise HttpError(_UNAVAILABLE, _OVERLOADED, text, (b"retry-after", _RETRY_AFTER))

    async def end_excess(self, but: Session) -> None:
        """End sessions that were idle too long, and those above the limit."""
        # Other sessions may change while one is closed.
        while (victim := self._abandoned(but)) or (victim := self._excess(but)):
            await self.end(victim)

    async def end(self, session: Session) -> None:
        """End a session: its calls in flight are cancelled; no-op if it has ended."""
        if self._open.pop(session.id, None) is None:
            return
        self._on_end(session.id)
        await _close(session)

    async def end_closed(self, is_open: Callable[[Gateway, str | None], bool]) -> None:
        """End the sessions of gateways that are not there for their users any more."""
        for session in list(self._open.values()):
            if not is_open(session.gateway, session.user):
                await self.end(session)

    async def close(self) -> None:
        """End all sessions without `on_end`, because the server stops."""
        sessions, self._open = self._open, {}
        for session in sessions.values():
            await _close(session)

    @contextmanager
    def _in_flight(self, session: Session) -> Iterator[None]:
        session.requests += 1
        try:
            yield
        finally:
            session.requests -= 1
            session.used_at = self._clock()

    def _abandoned(self, but: Session) -> Session | None:
        return next((session for session in self._idle(but) if self._is_abandoned(session)), None)

    def _is_abandoned(self, session: Session) -> bool:
        return not session.requests and session.used_at < self._clock() - IDLE_LIFE

    def _excess(self, but: Session) -> Session | None:
        """The session to end if there are too many; None otherwise, or if all are in use.

        It belongs to the user with the most sessions: one that was never used, or else the one
        that was idle longest. So a client that opens many sessions ends its own first.
        """
        if len(self._open) <= self._limit:
            return None
        counts = Counter(session.user for session in self._open.values())
        return min(
            self._idle(but),
            key=lambda session: (-counts[session.user], session.is_used, session.used_at),
            default=None,
        )

    def _idle(self, but: Session) -> Iterator[Session]:
        return (
            session
            for session in self._open.values()
            if not session.requests and session is not but
        )


async def _close(session: Session) -> None:
    if session.listening:
        session.listening.close()
    await session.connection.close()
