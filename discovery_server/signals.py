"""What the process is told by signals, from before anything is opened until all is closed.

SIGINT and SIGTERM ask for the end, and a second one does not ask: it ends the process, and the
reaper its servers. SIGHUP asks to read the configuration again.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from discovery_engine.tasks import open_task_group


class Signals:
    """What each signal does; made by `heard`, and changed as more can be done."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop
        self.reload: Callable[[], Awaitable[None]] | None = None

    async def obey(self, told: AsyncIterator[int]) -> None:
        async for number in told:
            if number not in (signal.SIGINT, signal.SIGTERM):
                if self.reload:
                    await self.reload()
                continue
            for deadly in (signal.SIGINT, signal.SIGTERM):
                signal.signal(deadly, signal.SIG_DFL)
            self.stop()


@asynccontextmanager
async def heard() -> AsyncIterator[Signals]:
    """A block in which signals are obeyed; unless told otherwise, to stop is to cancel it."""
    with anyio.CancelScope() as scope:
        signals = Signals(scope.cancel)
        if sys.platform == "win32":  # the loop knows no signals there; Ctrl-C ends the process
            yield signals
            return
        before = signal.getsignal(signal.SIGINT)
        try:
            async with _obeying(signals):
                yield signals
        finally:
            signal.signal(signal.SIGINT, before or signal.SIG_DFL)


@asynccontextmanager
async def _obeying(signals: Signals) -> AsyncIterator[None]:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as told:
        async with open_task_group() as tasks:
            tasks.start_soon(signals.obey, told)
            yield
            tasks.cancel_scope.cancel()
