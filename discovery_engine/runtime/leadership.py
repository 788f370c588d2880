"""Leadership among processes that share a registry: one of them does what only one can do.

    async def serve(term):
        ...                                  until `term.lost` is set

    await Leadership(store, "http 127.0.0.1:8000").lead(serve)

The leader holds a lease and renews it. Another process takes over when the lease was released, or
when it saw no renewal for so long that the leader cannot count on it any more. Each measures with
its own monotonic clock how long that was: a clock that is set, a machine that sleeps and a reboot
never make a second leader beside the first.

A leader that was stopped finds out when it goes on: `Term.is_certain` is false from the moment on
at which another one may lead, until a renewal has shown that none does.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.tasks import open_task_group
from discovery_engine.errors import RegistryError
from discovery_engine.registry.leases import Lease
from discovery_engine.registry.protocols import LeaseStore

logger = logging.getLogger(__name__)


class LeaseTimes(Struct, frozen=True):
    """In seconds. Another leads at most `patience` and two pauses after a leader was killed."""

    pause: float = 2.0
    """Between two renewals, and between two looks of who waits."""
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
        """Whether no other process can lead now."""
        return not self.lost.is_set() and self._clock() < self._certain_until

    async def confirmed(self) -> bool:
        """Whether this process leads still; it waits for a renewal if that is not certain."""
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


class Leadership:
    """Of one thing, which `name` says; among the processes of one registry."""

    def __init__(
        self,
        store: LeaseStore,
        name: str,
        *,
        times: LeaseTimes = USUAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._name = name
        self._times = times
        self._clock = clock
        self._holder = f"{os.getpid()}-{secrets.token_hex(8)}"

    async def lead(self, work: Work) -> NoReturn:
        """Run `work` whenever this process leads; it must return soon after `Term.lost` is set.

        When it returns, or at the end of this, others may lead at once.
        """
        while True:
            term = await self._elected()
            logger.debug("This process leads %r, as number %d", self._name, term.lease.fence)
            try:
                await self._serve(term, work)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._release(term)
            await anyio.sleep(self._times.pause)

    async def _elected(self) -> Term:
        """Wait until this process is the leader."""
        seen: Lease | None = None
        seen_at = self._clock()
        while True:
            asked_at = self._clock()
            try:
                found = await anyio.to_thread.run_sync(self._store.lease, self._name)
                if found != seen:
                    seen, seen_at = found, self._clock()
                is_due = asked_at - seen_at >= self._times.patience
                if found is None or found.is_free or is_due:
                    asked_at = self._clock()
                    with anyio.CancelScope(shield=True):  # what is acquired must be released
                        lease = await anyio.to_thread.run_sync(self._acquire, found)
                    if lease is not None:
                        return Term(lease, asked_at + self._times.certain, self._clock)
            except RegistryError as error:
                logger.debug("It cannot be seen who leads %r: %s", self._name, error)
            await anyio.sleep(self._times.pause)

    def _acquire(self, instead_of: Lease | None) -> Lease | None:
        return self._store.acquire_lease(self._name, self._holder, instead_of=instead_of)

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
