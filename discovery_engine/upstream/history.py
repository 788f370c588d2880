"""The history of one server across its sessions: failures, counters and state.

Sessions and calls record each event here. The circuit breaker of the history decides whether the
server may be tried, and every change of state is published as an event.
"""

from __future__ import annotations

import random as chance
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.retry_after import backoff
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.events import EventBus, ServerStateChanged
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.upstream.call import CallObserver
from discovery_engine.upstream.concurrency import CallLimiter, QueueFull
from discovery_engine.upstream.handshake import Startup
from discovery_engine.upstream.state import ServerState, SessionStats, StateInfo

_NOT_TRIED = (
    *(FailureKind.NEEDS_CONFIG, FailureKind.UNTRUSTED, FailureKind.BUSY),
    FailureKind.SCOPE,  # the server is well, and so is the login for other requests
)
_ALLOWED = nullcontext()
_BACKING_OFF = (ServerState.FAILING, ServerState.CRASH_LOOPING)


class Policy(Struct, frozen=True):
    """Limits and clocks that the histories of all servers share."""

    everywhere: int = 256
    """The most calls in flight at all servers together; queued calls do not count."""
    own_sessions: int = 64
    """The most open sessions of all servers with `session: per_client`."""
    clock: Callable[[], float] = time.monotonic
    """A monotonic clock in seconds, for backoff."""
    random: Callable[[], float] = chance.random
    """Returns a number in [0, 1) for the jitter of the backoff."""


class ServerHistory:
    def __init__(self, server: ServerSettings, events: EventBus, policy: Policy) -> None:
        self.server = server.name
        self._transport = server.transport
        self._events = events
        self._policy = policy
        self._breaker = Breaker(clock=policy.clock, random=policy.random)
        self.calls = CallLimiter(server.limits)
        self.stats = SessionStats()
        self._connecting = 0
        self._ready = 0
        self._opened = 0
        self._timeout = ""
        self._fault = ""
        self._last: UnavailableError | None = None
        self._samples: tuple[str, ...] = ()
        self._state = ServerState.IDLE
        self._since = policy.clock()
        self.stderr = ""
        """The last stderr lines of a program that has exited."""
        self.start: Startup | None = None
        """The progress of the newest start; None before it has a start slot."""

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def is_ready(self) -> bool:
        """True if a session is open."""
        return self._ready > 0

    @property
    def reason(self) -> str:
        """The reason of the state; may be empty."""
        if self.is_in_doubt:
            return self._last.reason if self._last else ""
        return self._timeout or self._fault

    @property
    def detail(self) -> str:
        """More about the reason, for the owner alone; may be empty."""
        return self._last.detail if self._last and self.is_in_doubt else ""

    @property
    def is_in_doubt(self) -> bool:
        """True if the server failed since its last answer, so that requests need `attempt`."""
        return bool(self._breaker.failures or self._breaker.is_crash_looping)

    @property
    def awaits_login(self) -> bool:
        """True if the last failure was one of authorization, which a new login may end."""
        return isinstance(self._last, NeedsAuthError) and self.is_in_doubt

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run one request if the breaker allows it.

        Raises:
            UnavailableError: If the server must not be tried now; `retry_after` says when.
        """
        try:
            with self._breaker.attempt():
                yield
        except RetryLater as refusal:
            raise self._retry_later_error(refusal.seconds) from self._last

    def trial(self) -> AbstractContextManager[None]:
        """Return `attempt()` if the server failed since its last answer; else a null context."""
        return self.attempt() if self.is_in_doubt else _ALLOWED

    async def wait_slot(
        self, server: ServerSettings, observer: CallObserver | None = None
    ) -> CallLimiter:
        """Wait for a slot of a call if `calls` has none now, and return its limiter.

        The caller releases it there; a change of settings may have replaced `calls` by then.

        Raises:
            UnavailableError: If the queue is full, or no slot gets free within the call timeout.
        """
        calls, began = self.calls, time.monotonic()
        try:
            await calls.acquire(max_wait=server.timeouts.call)
        except QueueFull:
            self.stats.refused += 1
            raise _busy(server) from None
        finally:
            if observer:
                observer.record_wait(time.monotonic() - began)
        return calls

    def reset_backoff(self) -> None:
        """Allow the next request at once, regardless of earlier failures."""
        self._breaker.reset_backoff()

    def apply_settings(self, server: ServerSettings) -> None:
        """Apply the settings of the current request.

        A different transport means another server, whose failures are reset. New limits apply to
        later calls; calls in flight keep the old ones.
        """
        if server.limits is not self.calls.limits and server.limits != self.calls.limits:
            self.calls = CallLimiter(server.limits)
        if server.transport is self._transport or server.transport == self._transport:
            return
        self._transport = server.transport
        self._breaker = Breaker(clock=self._policy.clock, random=self._policy.random)
        self._timeout = self._fault = self.stderr = ""
        self._last = None
        self._update_state()

    def record_connecting(self) -> None:
        self.start = None
        self._connecting += 1
        self._update_state()

    def record_ready(self) -> None:
        """Record that a connecting session is open now; clears the fault of the last one."""
        self._connecting -= 1
        self._ready += 1
        self._opened += 1
        self.stats.restarts = self._opened - 1
        self._fault = ""
        self._update_state()

    def add_session(self, session: SessionStats) -> None:
        """Add the counters of a session that has ended."""
        self.stats = self.stats.plus(session)
        self._samples = session.samples or self._samples

    def record_closed(self, *, was_ready: bool, lost: UnavailableError | None = None) -> None:
        """Record that a session takes no more calls.

        A fault for which it was closed stays in `reason` until the next session is open.

        Args:
            was_ready: True if it was open; False if it was still connecting.
            lost: The failure, if the server closed the connection.
        """
        if was_ready:
            self._ready -= 1
        else:
            self._connecting -= 1
        if not self._ready:
            self._timeout = ""
        if lost:
            self.record_failure(lost, exited=True)
        self._update_state()

    def record_success(self) -> None:
        if self.is_in_doubt or self._timeout:
            self._breaker.record_success()
            self._timeout = ""
            self._update_state()

    def record_timeout(self, what: str, seconds: float) -> None:
        """Record that a request timed out after `seconds`; the session stays open."""
        self.stats.failures += 1
        self._timeout = f"{what} was not answered within {seconds:g} s"
        self._update_state()

    def record_fault(self, fault: str) -> None:
        """Record a violation of the protocol, such as unsolicited answers."""
        self._fault = fault
        self._update_state()

    def record_failure(self, error: UnavailableError, *, exited: bool = False) -> None:
        """Record a failed connect, or a connection that broke during a request.

        Failures for which the server was not tried, such as missing values, are ignored.
        """
        if error.kind in _NOT_TRIED:
            return
        self.stats.failures += 1
        self._last = error
        self.stderr = error.stderr or self.stderr
        has_exited = exited or error.kind is FailureKind.EXITED
        self._breaker.record_failure(exited=has_exited, at_least=error.retry_after or 0.0)
        self._update_state()

    def explain_loss(self, loss: UnavailableError, reason: str) -> None:
        """Set the reason of a lost session, once it is known; no-op after a later failure."""
        if self._last is loss:
            self._last = UnavailableError(self.server, loss.kind, reason, stderr=self.stderr)

    def report(self, session: SessionStats | None) -> StateInfo:
        """Return the state with all counters; `session` has those of the live session, if any."""
        live = session or SessionStats()
        stats = replace(
            self.stats.plus(live),
            users=live.users,
            queued=self.calls.waiting,
            pid=live.pid,
            protocol_version=live.protocol_version,
            sandbox=live.sandbox,
            samples=live.samples or self._samples,
            stderr=live.stderr or self.stderr,
        )
        return StateInfo(
            self._state,
            self.reason,
            detail=self.detail,
            seconds=self._policy.clock() - self._since,
            next_try=self._next_try,
            stats=stats,
        )

    @property
    def info(self) -> StateInfo:
        """The state without counters; with stderr only if the server is down."""
        stderr = self.stderr if self._state.is_down else ""
        hint = self._last.hint if self._last and self.awaits_login else ""
        return StateInfo(self._state, self.reason, stderr, detail=self.detail, hint=hint)

    @property
    def _next_try(self) -> float | None:
        wait = self._breaker.wait
        return wait if wait or self._state in _BACKING_OFF else None

    def _retry_later_error(self, seconds: float) -> UnavailableError:
        last = self._last
        when = f"next try in {ceil(seconds)} s" if seconds > 0 else "it is just being tried again"
        reason = f"{last.reason if last else 'it failed'}; {when}"
        if isinstance(last, NeedsAuthError):
            error: UnavailableError = NeedsAuthError(self.server, reason, hint=last.hint)
        else:
            kind = last.kind if last else FailureKind.LOST
            hint = last.hint if last else ""
            error = UnavailableError(self.server, kind, reason, hint=hint, stderr=self.stderr)
        error.detail = self.detail
        error.retry_after = max(1.0, seconds)
        return error

    def _update_state(self) -> None:
        if (now := self._current_state()) is not self._state:
            self._state = now
            self._since = self._policy.clock()
            reason = KNOWN_SECRETS.redact(self.reason)
            self._events.publish(ServerStateChanged(self.server, now, reason))

    def _current_state(self) -> ServerState:
        if self.awaits_login:
            return ServerState.NEEDS_AUTH
        if self._breaker.is_crash_looping:
            return ServerState.CRASH_LOOPING
        if self._breaker.failures and (self._breaker.is_open or not self._ready):
            return ServerState.FAILING
        if self._ready:
            is_faulty = self._breaker.failures or self._timeout or self._fault
            return ServerState.DEGRADED if is_faulty else ServerState.READY
        return ServerState.STARTING if self._connecting else ServerState.IDLE


def _busy(server: ServerSettings) -> UnavailableError:
    limits = server.limits
    reason = f"as many calls are under way as it takes ({limits.calls}), and {limits.queue} wait"
    error = UnavailableError(server.name, FailureKind.BUSY, reason, hint="try again in a moment")
    error.retry_after = 1.0
    return error


# A circuit breaker with exponential backoff, which decides when a failed server is tried again.
#
# Only failures of the connection count, such as a program that exits. Errors of tools and refused
# requests do not: the server is alive.

_OPENS_AT = 5  # consecutive failures
_FIRST_PAUSE = 1.0  # seconds, after the second failure; the first delays nothing
_LONGEST_PAUSE = 48.0  # seconds; a minute with the largest jitter
_LOOP_EXITS = 5
_LOOP_SPAN = 120.0  # seconds
_JITTER = 0.25


class RetryLater(Exception):  # noqa: N818 - a signal within this package, never an error outside
    """The server must not be tried for `seconds`; 0 if another caller is trying it now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Breaker:
    """A circuit breaker that decides whether one server may be tried now.

    `clock` returns monotonic seconds, `random` a number in [0, 1).
    """

    def __init__(self, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._next_try = clock()
        self._exits: deque[float] = deque(maxlen=_LOOP_EXITS)
        self._trying = 0
        self.failures = 0
        """The number of failures since the last answer."""
        self.is_crash_looping = False

    @property
    def is_open(self) -> bool:
        """True if only one caller at a time may try the server."""
        return self.failures >= _OPENS_AT or self.is_crash_looping

    @property
    def wait(self) -> float:
        """Seconds until the server may be tried again."""
        return max(0.0, self._next_try - self._clock())

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run one attempt to reach the server.

        Raises:
            RetryLater: If it is too early, or the breaker is open and another caller is trying.
        """
        if not self.failures and not self.is_crash_looping:
            yield
            return
        if (wait := self.wait) or (self.is_open and self._trying):
            raise RetryLater(wait)
        self._trying += 1
        try:
            yield
        finally:
            self._trying -= 1

    def record_success(self) -> None:
        """Reset failures and backoff; earlier exits of the program still count as crashes."""
        self.failures = 0
        self.is_crash_looping = False
        self._next_try = self._clock()

    def record_failure(self, *, exited: bool, at_least: float = 0.0) -> None:
        """Record that a request got no answer.

        Args:
            exited: Whether the program exited.
            at_least: Seconds that the server asked to wait (Retry-After); at most 48 are used.
        """
        now = self._clock()
        self.failures += 1
        pause = backoff(self.failures - 1, _FIRST_PAUSE, _LONGEST_PAUSE)
        if exited:
            self._exits.append(now)
            self.is_crash_looping |= self._exits_too_often(now)
        if self.is_crash_looping:
            pause = _LOOP_SPAN
        pause = max(pause, min(at_least, _LONGEST_PAUSE))
        self._next_try = now + pause * (1 + _JITTER * self._random())

    def reset_backoff(self) -> None:
        """Allow the next attempt at once."""
        self._next_try = self._clock()

    def _exits_too_often(self, now: float) -> bool:
        return len(self._exits) == _LOOP_EXITS and now - self._exits[0] <= _LOOP_SPAN
