"""What the process is told by signals, from before anything is opened until all is closed.

SIGINT and SIGTERM ask for the end, and a second one does not ask: it ends the process, and the
reaper its servers. SIGHUP asks to read the configuration again.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from discovery_engine._util.tasks import open_task_group


class Signals:
    """What each signal does; made by `heard`, and changed as more can be done."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop
        self.reload: Callable[[], Awaitable[None]] | None = None

    async def reload_when(self, told: AsyncIterator[int]) -> None:
        async for _ in told:
            if self.reload:
                await self.reload()


@asynccontextmanager
async def heard() -> AsyncIterator[Signals]:
    """A block in which signals are obeyed; unless told otherwise, to stop is to cancel it."""
    with anyio.CancelScope() as scope:
        signals = Signals(scope.cancel)
        if sys.platform == "win32":  # the loop knows no signals there; Ctrl-C ends the process
            yield signals
            return
        async with _obeying(signals):
            yield signals


@asynccontextmanager
async def _obeying(signals: Signals) -> AsyncIterator[None]:
    # The receiver is what has signals wake the loop, those that it does not receive included.
    with anyio.open_signal_receiver(signal.SIGHUP) as told, _stopping(signals):
        async with open_task_group() as tasks:
            tasks.start_soon(signals.reload_when, told)
            yield
            tasks.cancel_scope.cancel()


@contextmanager
def _stopping(signals: Signals) -> Iterator[None]:
    """A block in which the first signal to end asks, and the next one ends the process.

    The handlers are Python's: the loop's would be called once all signals are read, which a flood
    of them can put off for ever.
    """
    loop = asyncio.get_running_loop()

    def ask(*_: object) -> None:
        for one in before:
            signal.signal(one, signal.SIG_DFL)
        loop.call_soon_threadsafe(signals.stop)

    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        for one in before:
            signal.signal(one, ask)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler or signal.SIG_DFL)
