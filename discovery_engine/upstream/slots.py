"""How much happens at the same time: servers that start, and calls under way.

A server that is slow holds up itself and nobody else: its calls fill its own slots and its own
queue, and who finds the queue full is told at once; and it does not keep the others from starting.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from discovery_engine.config.settings import Limits
from discovery_engine.tasks import open_task_group

_SLOW = 5.0  # seconds; an ordinary server is up in two


class Full(Exception):  # noqa: N818 - a signal inside this room, never an error outside
    """There is no slot, and no place to wait for one."""


class Slots:
    """The slots of one server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._free = anyio.Semaphore(limits.calls, fast_acquire=True)
        self.waiting = 0

    async def acquire(self, *, patience: float) -> None:
        """Take a slot, first come, first served; give it back with `release`.

        Raises:
            Full: If too many wait, or none is free within `patience` seconds.
        """
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            await self._wait(patience)

    def release(self) -> None:
        self._free.release()

    async def _wait(self, patience: float) -> None:
        if self.waiting >= self.limits.queue:
            raise Full
        self.waiting += 1
        try:
            with anyio.fail_after(patience):
                await self._free.acquire()
        except TimeoutError:
            raise Full from None
        finally:
            self.waiting -= 1


class Starts:
    """The places of servers that start, which costs CPU: a hundred at once are slower than a few.

    One that takes longer than `slow` seconds is only waiting, and gives its place up.
    """

    def __init__(self, places: int, *, slow: float = _SLOW) -> None:
        self._places = anyio.Semaphore(places)
        self._slow = slow

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], None]]:
        """Wait for a place; yields what gives it back, early and more than once if need be."""
        await self._places.acquire()
        is_held = True

        def leave() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._places.release()

        async def leave_when_slow() -> None:
            await anyio.sleep(self._slow)
            leave()

        try:
            async with open_task_group() as tasks:
                tasks.start_soon(leave_when_slow)
                yield leave
                tasks.cancel_scope.cancel()
        finally:
            leave()
