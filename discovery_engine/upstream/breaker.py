"""A circuit breaker with exponential backoff: when a server that failed may be tried again.

Only failures of the connection count: a program that exits, a connection that breaks. A tool that
fails does not count, and a server that refuses a request is alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from discovery_engine._util.retry_after import backoff

_OPENS_AT = 5  # failures in a row
_FIRST_PAUSE = 1.0  # seconds; the first failure of a row delays nothing
_LONGEST_PAUSE = 48.0  # seconds, a minute with all its jitter
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

    `clock` gives seconds that never go back, `random` a number in [0, 1).
    """

    def __init__(self, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._next_try = clock()
        self._exits: deque[float] = deque(maxlen=_LOOP_EXITS)
        self._trying = 0
        self.failures = 0
        """Failures in a row, since the last answer."""
        self.is_crash_looping = False

    @property
    def is_open(self) -> bool:
        """True if only one caller at a time may try the server, after each pause."""
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
        """Reset failures and backoff; the exits of the program still count for crash looping."""
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
