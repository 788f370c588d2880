"""The state of a server: one enum for the whole engine, and what a session counts."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class ServerState(StrEnum):
    """The state of a server, everywhere in the engine."""

    PENDING = "pending"
    """Its tools have not been listed yet."""
    STARTING = "starting"
    READY = "ready"
    """A session is open."""
    IDLE = "idle"
    """No session is open; the next call opens one."""
    DEGRADED = "degraded"
    """A session is open, but requests time out or fail."""
    FAILING = "failing"
    """Connecting failed or the connection broke, and it has not answered since."""
    CRASH_LOOPING = "crash-looping"
    """Its program exited by itself five times within two minutes."""
    NEEDS_CONFIG = "needs_config"
    NEEDS_AUTH = "needs_auth"
    UNTRUSTED = "untrusted"
    """Its owner has not approved that it is started."""
    DISABLED = "disabled"

    @property
    def is_open(self) -> bool:
        return self in (ServerState.READY, ServerState.DEGRADED)

    @property
    def is_down(self) -> bool:
        return self in (ServerState.FAILING, ServerState.CRASH_LOOPING)


class SessionStats(Struct):
    """Counters since the upstreams were opened, and the live session."""

    calls: int = 0
    failures: int = 0
    """Requests and connects that the server failed."""
    refused: int = 0
    """Calls that found the queue full."""
    restarts: int = 0
    """Sessions after the first."""
    garbage: int = 0
    """Lines on the stdout of its program that were no messages."""
    strays: int = 0
    """Answers without a request."""
    duplicates: int = 0
    """Second answers."""
    users: int = 0
    """Calls in flight."""
    queued: int = 0
    """Calls that wait for a slot."""
    pid: int | None = None
    protocol_version: str = ""
    samples: tuple[str, ...] = ()
    """The first lines of garbage."""
    stderr: str = ""
    """The last stderr lines of its program."""
    sandbox: str = ""
    """The sandbox that confines its program, described for people; empty without one."""

    def plus(self, session: SessionStats) -> SessionStats:
        """These, with the counters that only a session has."""
        return replace(
            self,
            garbage=self.garbage + session.garbage,
            strays=self.strays + session.strays,
            duplicates=self.duplicates + session.duplicates,
        )


class StateInfo(Struct, frozen=True):
    """A state with its reason, and what was counted in it."""

    state: ServerState
    reason: str = ""
    """The reason why it is in that state; may be empty."""
    stderr: str = ""
    """The last stderr lines of a program that failed or is starting."""
    starting_for: float | None = None
    """Seconds since the start began; None while it waits for a start slot or does not start."""
    detail: str = ""
    """More of the reason, for the owner only: it may quote the server or name files."""
    hint: str = ""
    seconds: float = 0.0
    """Time in that state."""
    next_try: float | None = None
    """Seconds until it may be tried again; None if nothing delays it."""
    stats: SessionStats | None = None
    """None if it was not used by this process, or they were not requested."""
