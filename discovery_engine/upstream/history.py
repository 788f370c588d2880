"""The history of one server across its sessions: failures, counters and state.

Sessions and calls record each event here once. The history decides whether the server may be
tried (through its breaker) and publishes every change of state.
"""

from __future__ import annotations

import random as chance
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.events import EventBus, ServerStateChanged
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.upstream.breaker import Breaker, RetryLater
from discovery_engine.upstream.call import CallObserver
from discovery_engine.upstream.concurrency import CallLimiter, QueueFull
from discovery_engine.upstream.startup import Startup
from discovery_engine.upstream.state import ServerState, SessionStats, StateInfo

_NOT_TRIED = (
    *(FailureKind.NEEDS_CONFIG, FailureKind.UNTRUSTED, FailureKind.BUSY),
    FailureKind.SCOPE,  # the server is well, and so is the login for other requests
)
_BACKING_OFF = (ServerState.FAILING, ServerState.CRASH_LOOPING)


class Policy(Struct, frozen=True):
    """Limits and clocks shared by the histories of all servers."""

    everywhere: int = 256
    """Calls in flight at all servers; calls that wait in the queue of a server do not count."""
    own_sessions: int = 64
    """Sessions of all servers with `session: per_client`."""
    clock: Callable[[], float] = time.monotonic
    """A monotonic clock in seconds, for backoff."""
    random: Callable[[], float] = chance.random
    """A number in [0, 1): the jitter of the backoff."""


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
        """The newest start; None while it waits for a start slot."""

    @property
    def state(self) -> ServerState:
        return self._state

    @property
    def is_ready(self) -> bool:
        """True if a session is open."""
        return self._ready > 0

    @property
    def reason(self) -> str:
        """Why it is in that state; may be empty."""
        if self.is_in_doubt:
            return self._last.reason if self._last else ""
        return self._timeout or self._fault

    @property
    def detail(self) -> str:
        """More of the reason, for the owner alone."""
        return self._last.detail if self._last and self.is_in_doubt else ""

    @property
    def is_in_doubt(self) -> bool:
        """True if the server failed since its last answer, so that requests need `attempt`."""
        return bool(self._breaker.failures or self._breaker.is_crash_looping)

    @property
    def awaits_login(self) -> bool:
        """True if it failed because of its login, so that another login is worth a try."""
        return self.is_in_doubt and isinstance(self._last, NeedsAuthError)

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

    async def acquire_slot(
        self, server: ServerSettings, observer: CallObserver | None = None
    ) -> CallLimiter:
        """Take a slot for a call; release it at the limiter returned: `calls` may be another then.

        Raises:
            UnavailableError: If too many calls wait, or no slot is free in the time of a call.
        """
        calls = self.calls
        if calls.acquire_now():
            return calls
        began = time.monotonic()
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
        """Allow the next request at once, whatever failed before."""
        self._breaker.reset_backoff()

    def apply_settings(self, server: ServerSettings) -> None:
        """Use the settings of the current request.

        If the transport differs, it is another server: its failures are reset. New limits apply
        from this call on; earlier calls end under the old ones.
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
        """A session that was connecting is open now; faults of the last one are cleared."""
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
        """A session takes no more callers; `lost` if the server closed it.

        A fault for which it was closed stays visible until the next session is open.
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
        """A request timed out; the session stays open for other requests."""
        self.stats.failures += 1
        self._timeout = f"{what} was not answered within {seconds:g} s"
        self._update_state()

    def record_fault(self, fault: str) -> None:
        """The server violated the protocol, for example with unsolicited answers."""
        self._fault = fault
        self._update_state()

    def record_failure(self, error: UnavailableError, *, exited: bool = False) -> None:
        """Connecting failed, or the connection broke during a request."""
        if error.kind in _NOT_TRIED:
            return
        self.stats.failures += 1
        self._last = error
        self.stderr = error.stderr or self.stderr
        has_exited = exited or error.kind is FailureKind.EXITED
        self._breaker.record_failure(exited=has_exited, at_least=error.retry_after or 0.0)
        self._update_state()

    def explain_loss(self, loss: UnavailableError, reason: str) -> None:
        """Set the reason of a lost session once known; no-op if something else failed since."""
        if self._last is loss:
            self._last = UnavailableError(self.server, loss.kind, reason, stderr=self.stderr)

    def report(self, session: SessionStats | None) -> StateInfo:
        """The state with its counters; `session` is the live session, if any."""
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
        """The state without counters; stderr only of a program that failed."""
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
