"""Fair scheduling: the event-loop time that servers get for large answers and for floods.

All parsing happens on the event loop: threads would contend for the GIL and delay every call in
flight. A server that floods the gateway is read at a bounded rate, and large answers are parsed in
steps. All such work together gets a tenth of the time, in turns of a millisecond, so that calls of
other servers are not delayed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from discovery_engine._util import gc_pause
from discovery_engine.rpc.incremental_json import ParseSteps

LARGE = 64 * 1024  # bytes; parsing as much takes up to half a millisecond

# Bytes from which the garbage collector is paused: parsing 9 MB has steps of up to 20 ms with it,
# because it traverses all the new objects, and of at most 1 ms without.
_HUGE = 256 * 1024

_FLOOD_PAUSE = 0.03  # seconds
_QUOTA = 256  # between two pauses: a skipped line costs 1, which is some microseconds
_YIELD_AFTER = 64  # cost after which other tasks run
_TURN = 0.001  # seconds of parsing between two pauses
_PAUSE_FACTOR = 9  # a pause takes nine times the turn, which leaves a tenth of the time

T = TypeVar("T")


class FairScheduler:
    """Shared by all servers; `worked` returns the CPU seconds of this thread."""

    def __init__(
        self,
        *,
        worked: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._worked = worked
        self._sleep = sleep
        self._pausing = anyio.Lock()  # pauses run one after the other, so their number is bounded
        self._huge = anyio.Lock()

    async def pause(self) -> None:
        """Wait before the next read from a flooding server."""
        await self._wait(_FLOOD_PAUSE)

    async def run(self, steps: ParseSteps[T], *, size: int) -> T:
        """Drive a parser of `size` bytes and return its value; other tasks run between steps.

        Huge answers are parsed one at a time, with the garbage collector paused.

        Raises:
            Exception: What the generator raises.
        """
        if size <= _HUGE:
            return await self._drive(steps)
        async with self._huge:
            with gc_pause.paused():
                return await self._drive(steps)

    async def _drive(self, steps: ParseSteps[T]) -> T:
        turn = 0.0
        while True:
            began = self._worked()
            try:
                next(steps)
            except StopIteration as end:
                value: T = end.value
                return value
            turn += self._worked() - began
            if turn < _TURN:
                await checkpoint()
            else:
                await self._wait(turn * _PAUSE_FACTOR)
                turn = 0.0

    async def _wait(self, seconds: float) -> None:
        async with self._pausing:
            await self._sleep(seconds)


class Quota:
    """The cost that one server may cause between two answers; beyond it, reading pauses."""

    def __init__(self, scheduler: FairScheduler) -> None:
        self._scheduler = scheduler
        self._spent = self._since_yield = 0

    def spend(self, cost: int) -> None:
        self._spent += cost
        self._since_yield += cost

    @property
    def is_spent(self) -> bool:
        return self._spent >= _QUOTA

    @property
    def is_due(self) -> bool:
        """True if `pause_if_spent` would pause, or let other tasks run."""
        return self._since_yield >= _YIELD_AFTER or self.is_spent

    def reset(self) -> None:
        """Restore the full quota, after an answer."""
        self._spent = 0

    async def pause_if_spent(self) -> None:
        """Pause if the quota is spent; let other tasks run after every `_YIELD_AFTER`."""
        if self.is_spent:
            self._spent = self._since_yield = 0
            await self._scheduler.pause()
        elif self._since_yield >= _YIELD_AFTER:
            self._since_yield = 0
            await checkpoint()
