"""How many servers start at the same time.

Starting costs CPU, so that a hundred at once are slower than a few at a time. A server that
takes long is only waiting: it gives its place up, so that a handful of dead ones hold up nobody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from discovery_engine.tasks import open_task_group

_SLOW = 5.0  # seconds; an ordinary server is up in two


class Starts:
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
