"""The time that a request has: progress extends it, and a paused clock does not use it up.

The loop may be held up by other work, or the process be stopped: then the answer lies in a pipe,
and its server is not to blame. Such time does not count, and before the rest is up, what has
arrived is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Self, TypeAlias

import anyio

from discovery_engine.rpc.messages import RequestTimeout, RequestTimeoutError

_MIN_CLOCK_CHECK_INTERVAL = 0.05  # seconds between two looks at a clock that may be paused
_LONGEST_LOOK = 1.0  # seconds between two looks at whether the loop was held up
_DRAIN = 0.05  # seconds in which what has arrived is read: tens of turns of the loop
_LONGEST_DRAIN = 1.0  # seconds, after the loop has stood still for long
_MOST_DRAINS = 5  # in a row, on a machine so busy that every look is late


class PausableClock:
    """The time of the event loop, without the time in which it was paused."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pauses = 0
        self._began = 0.0
        self._lost = 0.0

    def time(self) -> float:
        now = self._began if self._pauses else self._loop.time()
        return now - self._lost

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block during which the time does not go on; blocks may overlap."""
        if not self._pauses:
            self._began = self._loop.time()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._lost += self._loop.time() - self._began


class RequestTimer:
    """Calls `on_expired` with the error when the time of a request is over, unless stopped."""

    def __init__(
        self,
        timeout: RequestTimeout,
        on_expired: Callable[[RequestTimeoutError], None],
        timers: SharedTimer | None = None,
    ) -> None:
        """`timers` are those of other requests, if there are many."""
        self._timeout = timeout
        self._on_expired = on_expired
        self._timers = SharedTimer() if timers is None else timers
        self._loop = asyncio.get_running_loop()
        self._time = timeout.clock.time if timeout.clock else self._loop.time
        now = self._time()
        self._longest = max(timeout.seconds, timeout.longest)
        self._deadline = now + timeout.seconds
        self._last_deadline = now + self._longest
        self._next_look = self._loop.time() + min(timeout.seconds, _LONGEST_LOOK)
        self._drains = 0
        self._timers.add(self, self._next_look, self._look)

    @property
    def rest(self) -> float:
        """Seconds that are left."""
        return self._deadline - self._time()

    def extend(self) -> None:
        """Start the time again, within the maximum."""
        self._deadline = min(self._time() + self._timeout.seconds, self._last_deadline)

    def stop(self) -> None:
        self._timers.discard(self)

    def _look(self) -> float | None:
        now = self._loop.time()
        late = now - self._next_look
        if (rest := self.rest) > 0:
            self._drains = 0
            if late > _DRAIN:
                self._deadline += late
                self._last_deadline += late
            self._next_look = now + min(max(rest, _MIN_CLOCK_CHECK_INTERVAL), _LONGEST_LOOK)
            return self._next_look
        if not self._drains or (late > _DRAIN and self._drains < _MOST_DRAINS):
            self._drains += 1
            self._next_look = now + min(max(late, _DRAIN), _LONGEST_DRAIN)
            return self._next_look
        is_last = self._deadline >= self._last_deadline
        self._on_expired(RequestTimeoutError(self._longest if is_last else self._timeout.seconds))
        return None


class RequestTimeLimit:
    """A context manager that raises RequestTimeoutError; without a timeout it never does."""

    def __init__(self, timeout: RequestTimeout | None) -> None:
        self._timeout = timeout
        self._timer: RequestTimer | None = None
        self._scope = anyio.CancelScope()
        self._error: RequestTimeoutError | None = None

    def __enter__(self) -> Self:
        if self._timeout:
            self._timer = RequestTimer(self._timeout, self._expire)
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer:
            self._timer.stop()
        self._scope.__exit__(exc_type, exc, traceback)
        if self._scope.cancelled_caught and self._error:
            raise self._error

    def extend(self) -> None:
        """Start the time again, within the maximum."""
        if self._timer:
            self._timer.extend()

    def _expire(self, error: RequestTimeoutError) -> None:
        self._error = error
        self._scope.cancel()


# Many deadlines with one timer of the event loop, as nearly all are withdrawn before they are due.
#
# A timer of the event loop for each, cancelled again, took a twentieth of a call.

Look: TypeAlias = Callable[[], float | None]
"""Called when a deadline is due; returns the next one, or None if it is over."""


class SharedTimer:
    """Deadlines, in the event loop's time, by a key of their owner."""

    def __init__(self) -> None:
        self._deadlines: dict[Hashable, tuple[float, Look]] = {}
        self._next = inf
        """The time at which the timer looks; later deadlines need no other timer."""
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, key: Hashable, deadline: float, look: Look) -> None:
        self._deadlines[key] = deadline, look
        if deadline < self._next:
            self._wake_at(deadline)

    def discard(self, key: Hashable) -> None:
        """No-op if it is not there. The timer stays: it looks once for nothing."""
        self._deadlines.pop(key, None)

    def _wake_at(self, deadline: float) -> None:
        if self._handle:
            self._handle.cancel()
        self._next = deadline
        self._handle = asyncio.get_running_loop().call_at(deadline, self._look)

    def _look(self) -> None:
        self._handle, self._next = None, inf
        now = asyncio.get_running_loop().time()
        due = [(key, look) for key, (deadline, look) in self._deadlines.items() if deadline <= now]
        for key, look in due:
            if key not in self._deadlines:  # withdrawn by one that was due before
                continue
            if (deadline := look()) is None:
                self._deadlines.pop(key, None)
            else:
                self._deadlines[key] = deadline, look
        if self._deadlines:
            self._wake_at(min(deadline for deadline, _ in self._deadlines.values()))
