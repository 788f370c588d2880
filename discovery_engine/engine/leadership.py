"""Leadership among processes that share a registry: one of them does what only one can do.

    async def serve(term):
        ...                                  until `term.lost` is set

    await Leadership(store, "http 127.0.0.1:8000").lead(serve)

The leader holds a lease and renews it. Another process takes over when the lease was released, or
when it saw no renewal for so long that the leader cannot count on it any more. Each measures with
its own monotonic clock how long that was: a clock that is set, a machine that sleeps and a reboot
never make a second leader beside the first.

On one machine a leader also has a file locked. When it ends, however it does, the lock is free, and
the next process takes the lease at once. The lease decides on who leads in every case: the lock
only shows that waiting for its holder is in vain. A leader without it, as one where files cannot be
locked, is waited for; so is one that hangs.

A leader that was stopped finds out when it goes on: `Term.is_certain` is false from the moment on
at which another one may lead, until a renewal has shown that none does.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine._util.file_lock import lock_file
from discovery_engine._util.tasks import open_task_group
from discovery_engine.errors import RegistryError
from discovery_engine.store.registry import Registry
from discovery_engine.store.stored_records import Lease

logger = logging.getLogger(__name__)


class LeaseTimes(Struct, frozen=True):
    """In seconds. Another leads at most a `glance` after a leader with a lock has ended.

    One that hangs, or has no lock, is followed after `patience` and two pauses at most.
    """

    pause: float = 2.0
    """Between two renewals, and between two looks of who waits."""
    glance: float = 0.5
    """Between two tries of the lock: some 50 us of CPU, where a look takes ten times as much."""
    certain: float = 6.0
    """After a renewal, in which the leader need not ask whether it still is."""
    patience: float = 8.0
    """Without a renewal after which another process takes over: more than `certain`."""
    handover: float = 10.0
    """For what a leader has begun, when it leads no more."""


USUAL = LeaseTimes()


class Term:
    """The time in which this process leads."""

    def __init__(self, lease: Lease, certain_until: float, clock: Callable[[], float]) -> None:
        self.lease = lease
        self.lost = anyio.Event()
        """Set when another process leads."""
        self._certain_until = certain_until
        self._clock = clock
        self._settled = anyio.Event()

    @property
    def is_certain(self) -> bool:
        """True if no other process can lead now."""
        return not self.lost.is_set() and self._clock() < self._certain_until

    async def confirmed(self) -> bool:
        """Return whether this process still leads; wait for a renewal if that is not certain."""
        while not self.is_certain and not self.lost.is_set():
            await self._settled.wait()
        return self.is_certain

    def extend(self, lease: Lease, certain_until: float) -> None:
        self.lease, self._certain_until = lease, certain_until
        self._settle()

    def lose(self) -> None:
        self.lost.set()
        self._settle()

    def _settle(self) -> None:
        self._settled.set()
        self._settled = anyio.Event()


Work: TypeAlias = Callable[[Term], Awaitable[None]]

_LOCKED = "-locked-"
"""Before the file that a holder has locked, at the end of its name; without a lock it has none."""


class Leadership:
    """The leadership of the thing called `name`, among the processes of one registry."""

    def __init__(
        self,
        store: Registry,
        name: str,
        *,
        lock: LeaderLock | None = None,
        times: LeaseTimes = USUAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`lock` is of the same processes; None if they are not all on this machine."""
        self._store = store
        self._name = name
        self._lock = lock
        self._times = times
        self._clock = clock
        self._holder = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._seen: Lease | None = None
        self._seen_at = clock()

    async def lead(self, work: Work) -> NoReturn:
        """Run `work` whenever this process leads; it must return soon after `Term.lost` is set.

        When it returns, or at the end of this, others may lead at once.
        """
        try:
            while True:
                await self._run(await self._elected(), work)
                await anyio.sleep(self._times.pause)
        finally:
            self._unlock()

    async def lead_once(self, work: Work) -> bool:
        """Run `work` if no other process leads now; returns whether none did. To be called again.

        Raises:
            RegistryError: If it cannot be seen who leads.
        """
        if (term := await self._stand()) is None:
            return False
        await self._run(term, work)
        return True

    async def _elected(self) -> Term:
        """Wait until this process is the leader."""
        while True:
            try:
                if term := await self._stand():
                    return term
            except RegistryError as error:
                logger.debug("It cannot be seen who leads %r: %s", self._name, error)
            await self._pause()

    async def _pause(self) -> None:
        """Wait until it is time to look again: when the lock is free, or after a while."""
        glances = self._times.pause / self._times.glance if self._lock else 1.0
        for _ in range(round(glances)):
            await anyio.sleep(self._times.pause / glances)
            if await self._locked() == "held":
                return

    async def _stand(self) -> Term | None:
        """Become the leader, if no other process is one."""
        term = None
        try:
            term = await self._term(await self._locked())
        finally:
            if term is None:  # who has the lock should lead
                self._unlock()
        return term

    async def _term(self, lock: LockState) -> Term | None:
        asked_at = self._clock()
        stored_lease = await anyio.to_thread.run_sync(self._store.lease, self._name)
        if stored_lease != self._seen:
            self._seen, self._seen_at = stored_lease, self._clock()
        is_due = asked_at - self._seen_at >= self._times.patience
        end = f"{_LOCKED}{self._lock.file}" if self._lock and lock == "held" else ""
        if is_due or (lock != "taken" and _is_over(stored_lease, end)):
            asked_at = self._clock()
            with anyio.CancelScope(shield=True):  # what is acquired must be released
                lease = await anyio.to_thread.run_sync(
                    self._acquire, stored_lease, self._holder + end
                )
            if lease is not None:
                return Term(lease, asked_at + self._times.certain, self._clock)
        return None

    async def _locked(self) -> LockState:
        """Try to take the lock, and return its state; in a thread, as it may be on a slow disk."""
        if self._lock is None:
            return "unusable"
        return await anyio.to_thread.run_sync(self._lock.acquire)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    async def _run(self, term: Term, work: Work) -> None:
        logger.debug("This process leads %r, as number %d", self._name, term.lease.fence)
        try:
            await self._serve(term, work)
        finally:
            with anyio.CancelScope(shield=True):
                await self._release(term)
            self._unlock()

    def _acquire(self, instead_of: Lease | None, holder: str) -> Lease | None:
        return self._store.acquire_lease(self._name, holder, instead_of=instead_of)

    async def _serve(self, term: Term, work: Work) -> None:
        async with open_task_group() as tasks:
            tasks.start_soon(self._renew, term)
            with anyio.CancelScope() as scope:
                tasks.start_soon(self._end, term, scope)
                await work(term)
            tasks.cancel_scope.cancel()

    async def _renew(self, term: Term) -> None:
        """Renew the lease until another process has it."""
        is_said = False
        while True:
            await anyio.sleep(self._times.pause)
            asked_at, was_certain = self._clock(), term.is_certain
            try:
                renewed = await anyio.to_thread.run_sync(self._store.renew_lease, term.lease)
            except RegistryError as error:
                if not is_said:
                    logger.warning("The lease of %r cannot be renewed: %s", self._name, error)
                is_said = True
                # No other process can take it there, either: a full disk does not end the service.
                # But a process that was stopped does not know what happened meanwhile.
                if not was_certain:
                    continue
                renewed = term.lease
            else:
                is_said = False
            if renewed is None:
                logger.warning("Another process leads %r by now", self._name)
                term.lose()
                return
            term.extend(renewed, asked_at + self._times.certain)

    async def _end(self, term: Term, scope: anyio.CancelScope) -> None:
        """End work that does not end by itself after the term was lost."""
        await term.lost.wait()
        await anyio.sleep(self._times.handover)
        scope.cancel()

    async def _release(self, term: Term) -> None:
        try:
            await anyio.to_thread.run_sync(self._store.release_lease, term.lease)
        except RegistryError as error:
            logger.debug("%r is not given up: %s", self._name, error)


def _is_over(found: Lease | None, end: str) -> bool:
    """Return whether no process leads: the lease is free, or its holder had the lock and ended.

    `end` is the end of this process's name as a holder; empty if it does not have the lock.
    """
    return found is None or found.is_free or (end != "" and found.holder.endswith(end))


# So others notice at once that a leader has ended, however it did. A leader that hangs keeps it.

_PRIVATE = 0o600

LockState: TypeAlias = Literal["held", "taken", "unusable"]
"""`held` by this process; `taken` by another; `unusable` where files cannot be locked."""


class LeaderLock:
    """The lock of one thing that can be led, in a folder that its processes share."""

    def __init__(self, folder: Path, name: str, *, lock: Callable[[int], None] = lock_file) -> None:
        """Nothing is opened yet."""
        digest = blake2b(name.encode(), digest_size=8).hexdigest()
        self._path = folder / f"leader-{digest}.lock"
        self._lock = lock
        self._descriptor: int | None = None

    @property
    def file(self) -> str:
        """Which file is locked, as long as this process has the lock.

        Another one, should somebody have removed the one that a leader has locked.
        """
        return "" if self._descriptor is None else f"{os.fstat(self._descriptor).st_ino:x}"

    def acquire(self) -> LockState:
        """Take the lock if no other process has it; who has it already keeps it."""
        if self._descriptor is not None:
            return "held"
        try:
            # Inherited by no program that this process starts: that might live on.
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, _PRIVATE)
        except OSError:
            return "unusable"
        try:
            self._lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            return "taken" if isinstance(error, BlockingIOError) else "unusable"
        self._descriptor = descriptor
        return "held"

    def release(self) -> None:
        """No-op if this process does not have it."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
