"""What can be seen of a server from outside: of its live session, and of how it fares."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class Phase(StrEnum):
    CONNECTING = "connecting"
    READY = "ready"


class SessionState(Struct, frozen=True):
    phase: Phase
    protocol_version: str = ""
    users: int = 0
    """Callers that are being served now."""
    pid: int | None = None
    garbage: int = 0
    """Lines on a program's output that were not messages."""
    samples: tuple[str, ...] = ()
    """The first few of those lines."""
    strays: int = 0
    """Answers to what nobody had asked."""
    duplicates: int = 0
    """Second answers."""
    stderr: str = ""
    """The last lines a program wrote to its error output."""


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    """A session is open."""
    IDLE = "idle"
    """No session is open, and the next call opens one."""
    DEGRADED = "degraded"
    """A session is open, and not all is well with it."""
    FAILING = "failing"
    """It could not be connected, or its connection broke, and it has not answered since."""
    CRASH_LOOPING = "crash-looping"
    """It ended by itself five times within two minutes."""


class Counters(Struct):
    """What has happened since the upstreams were opened."""

    calls: int = 0
    failures: int = 0
    """Requests and connects that came to nothing through no fault of ours."""
    refused: int = 0
    """Calls that found the queue full."""
    restarts: int = 0
    """Sessions after the first."""
    garbage: int = 0
    """Lines on a program's output that were not messages."""
    strays: int = 0
    """Answers to what nobody had asked."""
    duplicates: int = 0
    """Second answers."""

    def with_session(self, session: SessionState) -> Counters:
        """These, and what only a session has counted."""
        return replace(
            self,
            garbage=self.garbage + session.garbage,
            strays=self.strays + session.strays,
            duplicates=self.duplicates + session.duplicates,
        )


class Condition(Struct, frozen=True):
    """How a server fares."""

    state: State
    seconds: float
    """For how long it has been in that state."""
    reason: str
    """Why, where that is not plain; may be empty."""
    counters: Counters
    samples: tuple[str, ...] = ()
    """The first few lines of garbage."""
    stderr: str = ""
    """The last lines a program wrote to its error output."""
    detail: str = ""
    """More of the reason, for the owner alone: it may quote the server."""
    next_try: float | None = None
    """Seconds until it may be tried again; None if nothing holds it back."""
    users: int = 0
    """Callers that are being served now."""
    queued: int = 0
    """Calls that wait for a slot."""
    pid: int | None = None
    protocol_version: str = ""
