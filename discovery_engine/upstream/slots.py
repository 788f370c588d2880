"""How many calls may be under way: at one server, and at all of them together.

A server that is slow fills its own slots and its own queue, and nobody else's. Who finds the
queue full is told at once.
"""

from __future__ import annotations

import anyio

from discovery_engine.config.settings import Limits


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
