"""How much of our time servers get for what nobody waits for, and for what is very large.

There is one event loop for all, and all of this happens on it: a thread would fight the loop for
the interpreter, and each of its victories costs every call under way. So a server that floods us
is read at leisure, and what is large is parsed in steps. All such servers together get a tenth
of the time, in turns so short that the calls of the others do not notice.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from discovery_engine._util import gc_pause
from discovery_engine.upstream.wire.incremental_json import ParseSteps

LARGE = 64 * 1024  # bytes; to parse as much takes up to half a millisecond

_HUGE = 256 * 1024  # bytes; of as much the collector would make a meal

_REST = 0.03  # seconds
_ALLOWANCE = 256  # between two rests: a line that is left out is 1, and takes some microseconds
_STROKE = 64  # between two turns of the others
_TURN = 0.001  # seconds of work on what is large, with the others in between
_REST_OF_TURN = 9  # times as long

T = TypeVar("T")


class FairScheduler:
    """Shared by all servers; `worked` tells the seconds that this thread has worked."""

    def __init__(
        self,
        *,
        worked: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._worked = worked
        self._sleep = sleep
        self._lane = anyio.Lock()
        self._huge = anyio.Lock()

    async def pause(self) -> None:
        """Wait until it is a flooding server's turn again."""
        await self._wait(_REST)

    async def run(self, steps: ParseSteps[T], *, size: int) -> T:
        """What a generator makes of so many bytes in the end; other tasks run between its steps.

        Of what is huge one follows the other, and the collector looks only in between.

        Raises:
            Exception: What the generator raises.
        """
        if size <= _HUGE:
            return await self._driven(steps)
        async with self._huge:
            with gc_pause.paused():
                return await self._driven(steps)

    async def _driven(self, steps: ParseSteps[T]) -> T:
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
                await self._wait(turn * _REST_OF_TURN)
                turn = 0.0

    async def _wait(self, seconds: float) -> None:
        async with self._lane:
            await self._sleep(seconds)


class Quota:
    """What one server may cost between two answers; who has spent it has to rest."""

    def __init__(self, scheduler: FairScheduler) -> None:
        self._scheduler = scheduler
        self._spent = self._stroke = 0

    def spend(self, cost: int) -> None:
        self._spent += cost
        self._stroke += cost

    @property
    def is_spent(self) -> bool:
        return self._spent >= _ALLOWANCE

    def reset(self) -> None:
        """It has answered."""
        self._spent = 0

    async def pause_if_spent(self) -> None:
        """Rest if the quota is spent; let other tasks run if they have not for a while."""
        if self.is_spent:
            self._spent = self._stroke = 0
            await self._scheduler.pause()
        elif self._stroke >= _STROKE:
            self._stroke = 0
            await checkpoint()
