"""Limits of concurrency: calls to a server, and servers that start.

Each server has its own slots and its own bounded queue, so a slow server delays only its own
callers. A call that finds the queue full fails at once, and a server that starts slowly gives up
its start slot.
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

_SLOW = 5.0  # seconds; an ordinary server is up in two


class QueueFull(Exception):  # noqa: N818 - a signal within this package, never an error outside
    """All slots are in use, and the queue is full or the wait timed out."""


class CallLimiter:
    """At most `limits.calls` calls of one server at a time, and a bounded queue of waiting ones.

    With 64 callers and 16 slots most calls wait. A future for each, and one timer, take a tenth of
    what a semaphore within a cancel scope took, which was a quarter of a call.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting = 0
        self._free = limits.calls  # negative if slots were lent, and are in use by more callers
        self._queue: deque[asyncio.Future[None]] = deque()
        self._timers = SharedTimer()

    async def acquire(self, *, max_wait: float | None = None) -> None:
        """Take a slot, first in, first out; `release` returns it.

        Raises:
            QueueFull: If too many callers wait, or no slot is free within `max_wait` seconds.
        """
        if self.acquire_now():
            return
        if self.waiting >= self.limits.queue:
            raise QueueFull
        await self._wait(max_wait)

    def acquire_now(self) -> bool:
        """Take a slot if one is free, and return whether it was."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Pass a slot on to the caller that has waited longest."""
        while self._queue and self._free >= 0:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    @contextmanager
    def lent(self) -> Iterator[None]:
        """A block in which the holder of a slot leaves it to others.

        It has one again at once. If all are in use by then, the next that is released is not
        passed on.
        """
        self.release()
        try:
            yield
        finally:
            self._free -= 1

    async def _wait(self, max_wait: float | None) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        if max_wait is not None:
            self._timers.add(waiter, loop.time() + max_wait, partial(_expire, waiter))
        self._queue.append(waiter)
        self.waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # a slot was passed on to it meanwhile
                self.release()
            raise
        finally:
            self._timers.discard(waiter)
            self.waiting -= 1


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(QueueFull())


class StartLimiter:
    """At most `slots` servers start at a time, because starting costs CPU.

    A server that takes longer than `slow` seconds mostly waits (for a download, say), so its slot
    is released early.
    """

    def __init__(self, slots: int, *, slow: float = _SLOW) -> None:
        self._slots = anyio.Semaphore(slots)
        self._slow = slow

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Callable[[], None]]:
        """Wait for a slot; yields a function that releases it early, any number of times."""
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
