"""Concurrency limits for calls to a server and for starts of servers.

Each server has its own slots and its own bounded queue, so a slow server delays only its own
callers. A call fails at once if the queue is full. A slow start releases its slot early.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import Limits
from discovery_engine.rpc.request_timer import SharedTimer

_SLOW = 5.0  # seconds; most servers start within two


class QueueFull(Exception):  # noqa: N818 - a signal within this package, never an error outside
    """All slots are in use, and the queue is full or the wait timed out."""


class CallLimiter:
    """Limits the concurrent calls of one server, with a bounded queue, first in, first out.

    Each waiter is a future, and all share one timer: a tenth of the cost of a semaphore in a cancel
    scope, which took a quarter of a call with 64 callers and 16 slots.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting = 0
        self._free = limits.calls  # negative while lent slots are in use by both parties
        self._queue: deque[asyncio.Future[None]] = deque()
        self._timers = SharedTimer()

    async def acquire(self, *, max_wait: float | None = None) -> None:
        """Acquire a slot, which `release` returns.

        Raises:
            QueueFull: If the queue is full, or no slot gets free within `max_wait` seconds.
        """
        if self.acquire_now():
            return
        if self.waiting >= self.limits.queue:
            raise QueueFull
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        if max_wait is not None:
            self._timers.add(waiter, loop.time() + max_wait, partial(_expire, waiter))
        self._queue.append(waiter)
        self.waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # it was given a slot meanwhile
                self.release()
            raise
        finally:
            self._timers.discard(waiter)
            self.waiting -= 1

    def acquire_now(self) -> bool:
        """Acquire a slot if one is free, and return whether it was."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Release a slot; the caller that has waited longest gets it."""
        while self._queue and self._free >= 0:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend a held slot to other callers for the duration of the block.

        The holder has its slot again at once. If all are in use then, the next released slot is not
        passed on.
        """
        self.release()
        try:
            yield
        finally:
            self._free -= 1


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(QueueFull())


class StartLimiter:
    """Limits concurrent starts of servers to `slots`, since a start costs CPU time.

    After `slow` seconds the slot is released: such a server mostly waits, such as for a download.
    """

    def __init__(self, slots: int, *, slow: float = _SLOW) -> None:
        self._slots = anyio.Semaphore(slots)
        self._slow = slow

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Callable[[], None]]:
        """Acquire a slot for the block; yields an idempotent function that releases it early."""
        await self._slots.acquire()
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._slots.release()

        async def release_when_slow() -> None:
            await anyio.sleep(self._slow)
            release()

        try:
            async with open_task_group() as tasks:
                tasks.start_soon(release_when_slow)
                yield release
                tasks.cancel_scope.cancel()
        finally:
            release()
