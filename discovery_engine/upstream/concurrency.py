"""How much happens at the same time: servers that start, calls under way, clients' own sessions.

A server that is slow holds up itself and nobody else: its calls fill its own slots and its own
queue, and who finds the queue full is told at once; and it does not keep the others from starting.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import Limits, ServerSettings
from discovery_engine.errors import FailureKind, UnavailableError

_SLOW = 5.0  # seconds; an ordinary server is up in two


class QueueFull(Exception):  # noqa: N818 - a signal inside this room, never an error outside
    """There is no slot, and no place to wait for one."""


class CallLimiter:
    """The slots of one server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._free = anyio.Semaphore(limits.calls, fast_acquire=True)
        self.waiting = 0

    async def acquire(self, *, max_wait: float) -> None:
        """Take a slot, first come, first served; give it back with `release`.

        Raises:
            QueueFull: If too many wait, or none is free within `max_wait` seconds.
        """
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            await self._wait(max_wait)

    def release(self) -> None:
        self._free.release()

    async def _wait(self, max_wait: float) -> None:
        if self.waiting >= self.limits.queue:
            raise QueueFull
        self.waiting += 1
        try:
            with anyio.fail_after(max_wait):
                await self._free.acquire()
        except TimeoutError:
            raise QueueFull from None
        finally:
            self.waiting -= 1


class StartLimiter:
    """The places of servers that start, which costs CPU: a hundred at once are slower than a few.

    One that takes longer than `slow` seconds is only waiting, and gives its place up.
    """

    def __init__(self, places: int, *, slow: float = _SLOW) -> None:
        self._places = anyio.Semaphore(places)
        self._slow = slow

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Callable[[], None]]:
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


class LimitedSession(Protocol):
    """What has a place: a session."""

    @property
    def server(self) -> ServerSettings: ...

    @property
    def is_retired(self) -> bool: ...

    @property
    def expires_in(self) -> float | None:
        """Seconds until it ends for want of callers; None while it has some."""


class SessionLimiter:
    """The sessions of servers with `session: per_client`: so many of one, so many of all.

    One has its place until its program is gone: however quickly clients come and go, there are
    never more programs than places.
    """

    def __init__(self, everywhere: int) -> None:
        self._everywhere = everywhere
        self._held: list[LimitedSession] = []
        self._left = anyio.Event()

    @asynccontextmanager
    async def slot(self, session: LimitedSession) -> AsyncIterator[None]:
        """The time of a session, once there is room for it.

        Raises:
            UnavailableError: If there is none, and no session is about to end.
        """
        if session.server.session != "per_client":
            yield
            return
        await self._room(session.server)
        self._held.append(session)
        try:
            yield
        finally:
            self._held.remove(session)
            self._left.set()
            self._left = anyio.Event()

    async def _room(self, server: ServerSettings) -> None:
        with anyio.move_on_after(server.timeouts.connect):
            while rivals := self._rivals(server):
                if not any(rival.is_retired for rival in rivals):
                    break
                await self._left.wait()
        if rivals := self._rivals(server):
            raise self._crowded(server, rivals)

    def _rivals(self, server: ServerSettings) -> list[LimitedSession]:
        """Those of whom one has to end first; none if there is room."""
        own = [held for held in self._held if held.server.name == server.name]
        if len(own) >= server.limits.sessions:
            return own
        return self._held if len(self._held) >= self._everywhere else []

    def _crowded(self, server: ServerSettings, rivals: list[LimitedSession]) -> UnavailableError:
        if rivals is self._held:
            reason = f"clients have {len(rivals)} sessions of their own with all servers"
            setting = "`server.maxOwnSessions`"
        else:
            reason = f"{len(rivals)} clients have a session of their own with it"
            setting = f"`limits.sessions` of server {server.name!r}"
        error = UnavailableError(
            server.name,
            FailureKind.BUSY,
            f"{reason}, which is the most",
            hint=f"try again when one of them has ended, or raise {setting}",
        )
        waits = [wait for rival in rivals if (wait := rival.expires_in) is not None]
        error.retry_after = max(1.0, min(waits, default=1.0))
        return error
