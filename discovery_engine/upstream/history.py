"""How one server has behaved so far, and what follows from it.

A history outlives the sessions with its server. Everything that happens is told to it once, by
whoever saw it; it decides whether the server may be tried, and tells of every change of state.
"""

from __future__ import annotations

import random as chance
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.events import EventBus, ServerStateChanged
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.upstream.breaker import Breaker, RetryLater
from discovery_engine.upstream.concurrency import CallLimiter
from discovery_engine.upstream.startup import Startup
from discovery_engine.upstream.state import Condition, Counters, Phase, SessionState, State

_NOTHING_WAS_TRIED = (FailureKind.NEEDS_CONFIG, FailureKind.UNTRUSTED, FailureKind.BUSY)
_HELD_BACK = (State.FAILING, State.CRASH_LOOPING)


class Policy(Struct, frozen=True):
    """What all records go by."""

    everywhere: int = 256
    """Calls under way at all servers; who still waits for a server does not count."""
    own_sessions: int = 64
    """Sessions of all servers with `session: per_client`."""
    clock: Callable[[], float] = time.monotonic
    """Seconds that never go back, for when a server that failed is tried again."""
    random: Callable[[], float] = chance.random
    """A number in [0, 1), so that servers that failed together are not tried together."""


class ServerHistory:
    def __init__(self, server: ServerSettings, events: EventBus, policy: Policy) -> None:
        self.server = server.name
        self._transport = server.transport
        self._events = events
        self._policy = policy
        self._breaker = Breaker(clock=policy.clock, random=policy.random)
        self.calls = CallLimiter(server.limits)
        self.counters = Counters()
        self._connecting = 0
        self._ready = 0
        self._starts = 0
        self._unanswered = ""
        self._fault = ""
        self._last: UnavailableError | None = None
        self._samples: tuple[str, ...] = ()
        self._state = State.IDLE
        self._since = policy.clock()
        self.stderr = ""
        """The last lines of stderr of a program that has exited."""
        self.start: Startup | None = None
        """The newest one; None while that waits for its turn."""

    @property
    def state(self) -> State:
        return self._state

    @property
    def reason(self) -> str:
        """Why it is in that state, where that is not plain; may be empty."""
        if self.is_in_doubt:
            return self._last.reason if self._last else ""
        return self._unanswered or self._fault

    @property
    def detail(self) -> str:
        """More of the reason, for the owner alone."""
        return self._last.detail if self._last and self.is_in_doubt else ""

    @property
    def is_in_doubt(self) -> bool:
        """Whether an attempt may be refused; if not, none need be made of a request."""
        return bool(self._breaker.failures or self._breaker.is_crash_looping)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """The time of one request.

        Raises:
            UnavailableError: If the server is not to be tried now; says when it is.
        """
        try:
            with self._breaker.attempt():
                yield
        except RetryLater as refusal:
            raise self._not_now(refusal.seconds) from self._last

    def reset_backoff(self) -> None:
        """Let the next request through, however the server failed."""
        self._breaker.reset_backoff()

    def apply_settings(self, server: ServerSettings) -> None:
        """Go by the settings of the request that is being made.

        A server that is reached in another way than before is another one: its failures are
        forgotten. Other limits hold from this call on; earlier calls end under their own.
        """
        if server.limits != self.calls.limits:
            self.calls = CallLimiter(server.limits)
        if server.transport == self._transport:
            return
        self._transport = server.transport
        self._breaker = Breaker(clock=self._policy.clock, random=self._policy.random)
        self._unanswered = self._fault = self.stderr = ""
        self._last = None
        self._note()

    def record_connecting(self) -> None:
        self.start = None
        self._connecting += 1
        self._starts += 1
        self.counters.restarts = self._starts - 1
        self._note()

    def record_ready(self) -> None:
        """A session that was connecting is open now; what the last one did is forgiven."""
        self._connecting -= 1
        self._ready += 1
        self._fault = ""
        self._note()

    def add_session(self, session: SessionState) -> None:
        """What only a session has counted, when that is over."""
        self.counters = self.counters.with_session(session)
        self._samples = session.samples or self._samples

    def record_closed(self, *, was_ready: bool, lost: UnavailableError | None = None) -> None:
        """A session takes no more callers; `lost` if that is the server's doing.

        A fault for which it was ended stays told until the next one is open.
        """
        if was_ready:
            self._ready -= 1
        else:
            self._connecting -= 1
        if not self._ready:
            self._unanswered = ""
        if lost:
            self.record_failure(lost, exited=True)
        self._note()

    def record_success(self) -> None:
        if self.is_in_doubt or self._unanswered:
            self._breaker.record_success()
            self._unanswered = ""
            self._note()

    def record_timeout(self, what: str, seconds: float) -> None:
        """A request was given up: the session goes on, and others may fare better."""
        self.counters.failures += 1
        self._unanswered = f"{what} was not answered within {seconds:g} s"
        self._note()

    def record_fault(self, fault: str) -> None:
        """It says what nobody can have asked."""
        self._fault = fault
        self._note()

    def record_failure(self, error: UnavailableError, *, exited: bool = False) -> None:
        """It could not be connected, or a connection broke during a request."""
        if error.kind in _NOTHING_WAS_TRIED:
            return
        self.counters.failures += 1
        self._last = error
        self.stderr = error.stderr or self.stderr
        has_exited = exited or error.kind is FailureKind.EXITED
        self._breaker.record_failure(exited=has_exited, at_least=error.retry_after or 0.0)
        self._note()

    def explain_loss(self, loss: UnavailableError, reason: str) -> None:
        """How a session was lost, as it turned out; no-op if something else has failed since."""
        if self._last is loss:
            self._last = UnavailableError(self.server, loss.kind, reason, stderr=self.stderr)

    def condition(self, session: SessionState | None) -> Condition:
        """How the server fares; `session` is the live one, if there is one."""
        live = session or SessionState(Phase.CONNECTING)
        return Condition(
            self._state,
            self._policy.clock() - self._since,
            self.reason,
            self.counters.with_session(live),
            samples=live.samples or self._samples,
            stderr=live.stderr or self.stderr,
            detail=self.detail,
            next_try=self._next_try,
            users=live.users,
            queued=self.calls.waiting,
            pid=live.pid,
            protocol_version=live.protocol_version,
        )

    @property
    def _next_try(self) -> float | None:
        wait = self._breaker.wait
        return wait if wait or self._state in _HELD_BACK else None

    def _not_now(self, seconds: float) -> UnavailableError:
        last = self._last
        when = f"next try in {seconds:.0f} s" if seconds >= 1 else "it is just being tried again"
        reason = f"{last.reason if last else 'it failed'}; {when}"
        if isinstance(last, NeedsAuthError):
            error: UnavailableError = NeedsAuthError(self.server, reason)
        else:
            kind = last.kind if last else FailureKind.LOST
            hint = last.hint if last else ""
            error = UnavailableError(self.server, kind, reason, hint=hint, stderr=self.stderr)
        error.detail = self.detail
        error.retry_after = max(1.0, seconds)
        return error

    def _note(self) -> None:
        if (now := self._derived()) is not self._state:
            self._state = now
            self._since = self._policy.clock()
            reason = KNOWN_SECRETS.redact(self.reason)
            self._events.publish(ServerStateChanged(self.server, now, reason))

    def _derived(self) -> State:
        if self._breaker.is_crash_looping:
            return State.CRASH_LOOPING
        if self._breaker.failures and (self._breaker.is_open or not self._ready):
            return State.FAILING
        if self._ready:
            is_faulty = self._breaker.failures or self._unanswered or self._fault
            return State.DEGRADED if is_faulty else State.READY
        return State.STARTING if self._connecting else State.IDLE
