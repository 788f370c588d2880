"""Signal handling from before anything is opened until everything is closed.

The first SIGINT or SIGTERM requests a shutdown; the same one again ends the process at once, and
the reaper ends its servers. The other one does not: clients send SIGTERM 100 ms after SIGINT,
whatever is still to be written. SIGHUP requests a reload of the configuration.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from discovery_engine._util.tasks import open_task_group


class SignalHandlers:
    """The action for each signal; `handled` creates it, and callers replace the actions."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop
        self.reload: Callable[[], Awaitable[None]] | None = None

    async def reload_on_each(self, received: AsyncIterator[int]) -> None:
        async for _ in received:
            if self.reload:
                await self.reload()


@asynccontextmanager
async def handled() -> AsyncIterator[SignalHandlers]:
    """A block in which signals are handled; by default a shutdown cancels the block."""
    with anyio.CancelScope() as scope:
        handlers = SignalHandlers(scope.cancel)
        if sys.platform == "win32":  # asyncio has no signal handlers there; Ctrl-C ends the process
            yield handlers
            return
        async with _receiving(handlers):
            yield handlers


@asynccontextmanager
async def _receiving(handlers: SignalHandlers) -> AsyncIterator[None]:
    # The receiver installs the wakeup descriptor, so that every signal wakes the loop.
    with anyio.open_signal_receiver(signal.SIGHUP) as received, _stopping(handlers):
        async with open_task_group() as tasks:
            tasks.start_soon(handlers.reload_on_each, received)
            yield
            tasks.cancel_scope.cancel()


@contextmanager
def _stopping(handlers: SignalHandlers) -> Iterator[None]:
    """A block in which a signal requests a shutdown, and the same one again ends the process.

    `signal.signal` rather than the loop's handlers: the loop calls those after it has read all
    pending signals, which a flood of them delays forever.
    """
    loop = asyncio.get_running_loop()

    def ask(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(handlers.stop)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, ask)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
