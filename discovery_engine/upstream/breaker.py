"""When a server that failed is tried again: later each time, and by one caller first.

Only what kept a request from its answer counts here: programs that die, connections that break.
A tool that fails is a tool's matter, and a server that refuses a request is alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_OPENS_AT = 5  # failures in a row
_FIRST_PAUSE = 1.0  # seconds; the first failure of a row delays nothing
_LONGEST_PAUSE = 48.0  # seconds, a minute with all its jitter
_LOOP_EXITS = 5
_LOOP_SPAN = 120.0  # seconds
_JITTER = 0.25


class RetryLater(Exception):  # noqa: N818 - a signal inside this room, never an error outside
    """The server is not to be tried for so many seconds; 0 if somebody is just trying it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Breaker:
    """Whether one server may be tried now.

    `clock` gives seconds that never go back, `random` a number in [0, 1).
    """

    def __init__(self, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._next_try = clock()
        self._exits: deque[float] = deque(maxlen=_LOOP_EXITS)
        self._trying = 0
        self.failures = 0
        """How many there were since the last answer."""
        self.is_crash_looping = False

    @property
    def is_open(self) -> bool:
        """Whether only one caller at a time may try the server, and only now and then."""
        return self.failures >= _OPENS_AT or self.is_crash_looping

    @property
    def wait(self) -> float:
        """Seconds until the server may be tried again."""
        return max(0.0, self._next_try - self._clock())

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """The time in which one caller tries the server.

        Raises:
            RetryLater: If it is too early, or the one caller who may try it is at it.
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
        """The server has answered something: all is forgiven, but for how often it died."""
        self.failures = 0
        self.is_crash_looping = False
        self._next_try = self._clock()

    def record_failure(self, *, exited: bool, at_least: float = 0.0) -> None:
        """A request got no answer.

        Args:
            exited: Whether the program died of it, or before it.
            at_least: Seconds that the server asks to be left alone; cut to a minute.
        """
        now = self._clock()
        self.failures += 1
        pause = 0.0
        if self.failures > 1:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.failures - 2, 30))
        if exited:
            self._exits.append(now)
            self.is_crash_looping |= self._is_dying_often(now)
        if self.is_crash_looping:
            pause = _LOOP_SPAN
        pause = max(pause, min(at_least, _LONGEST_PAUSE))
        self._next_try = now + pause * (1 + _JITTER * self._random())

    def reset_backoff(self) -> None:
        """Somebody wants it tried now, once, whatever happened."""
        self._next_try = self._clock()

    def _is_dying_often(self, now: float) -> bool:
        return len(self._exits) == _LOOP_EXITS and now - self._exits[0] <= _LOOP_SPAN
