"""Reads of the database that gateways share, and of its copy while it does not answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeVar

import anyio

from discovery_engine.errors import (
    RegistryError,
    RegistryTimeoutError,
    RegistryUnavailableError,
)
from discovery_engine.store.availability import Availability

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_engine.store.local_copy import LocalCopy
    from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
    from discovery_engine.store.protocols import Registry

T = TypeVar("T")

_READ_AGAIN = 1.0  # seconds after which a change that could not be read is passed on again
_MET = "met"  # beside the copy: the database has answered once, so the copy is of something


class Failover:
    """Asks the database, and reads the copy while it does not answer; closes neither.

    Args:
        remote: The database.
        copy: What this machine last saw of it.
        folder: That of the copy.
        on_return: Called when the database answers again.
        clock: Seconds from any beginning.
    """

    def __init__(
        self,
        remote: PostgresRegistry,
        copy: LocalCopy,
        *,
        folder: Path,
        on_return: Callable[[], object],
        clock: Callable[[], float],
    ) -> None:
        self._remote = remote
        self._copy = copy
        self._met = folder / _MET
        self._on_return = on_return
        self.availability = Availability(remote.database.address.name, clock)
        self.has_met = self._met.exists()
        """True if the database has ever answered on this machine."""
        self._answers_of_copy = 0
        """How often the copy answered in place of the database."""

    def read(self, ask: Callable[[Registry], T], *, is_decision: bool = False) -> tuple[T, bool]:
        """Read from the database, or from the copy if it does not answer.

        Returns what was read, and whether the database answered.

        Raises:
            RegistryError: If the copy cannot be read.
        """
        if self.may_ask():
            with suppress(RegistryError):
                return self.ask(ask, is_decision=is_decision), True
        self._answers_of_copy += 1
        return ask(self._copy.store), False

    def read_decision(self, ask: Callable[[Registry], T]) -> tuple[T, bool]:
        """Read decisions; see `read`.

        Raises:
            RegistryUnavailableError: If the copy lacks decisions that are in effect here.
        """
        answer, is_live = self.read(ask, is_decision=True)
        if not is_live:
            self._copy.require_decisions()
        return answer, is_live

    def ask(self, ask: Callable[[PostgresRegistry], T], *, is_decision: bool = False) -> T:
        """Call `ask` with the database and return its result.

        Raises:
            RegistryError: If it does not answer, or refuses. That is an outage if the newest
                decision cannot be read either, or `ask` reads decisions: these take milliseconds.
        """
        try:
            answer = ask(self._remote)
        except RegistryError as error:
            if outage := error if is_decision else self._outage(error):
                self.availability.failed(outage)
            raise
        was_out = self.availability.answered()
        if not self.has_met:
            self.has_met = True
            with suppress(OSError):
                self._met.touch()
        if was_out:
            self._copy.copy_decisions_later()
            self._on_return()
        return answer

    def ask_if_available(self, ask: Callable[[PostgresRegistry], T]) -> T:
        """Do the same as `Failover.ask`, but raise at once while the database is not retried."""
        if not self.may_ask() and (error := self.availability.error):
            raise error
        return self.ask(ask)

    def may_ask(self) -> bool:
        """Return whether to use the database now; one that did not answer is pinged first."""
        if not self.availability.may_try():
            return False
        try:
            if self.availability.error is not None:
                self._remote.ping()
        except RegistryError as error:
            self.availability.failed(error)
            return False
        return True

    async def changes(self) -> AsyncGenerator[None]:
        """Yield on each change of the database, and again while the copy answers in its place."""
        async with aclosing(self._remote.changes()) as changes:
            async for _ in changes:
                self.availability.retry_now()
                count = self._answers_of_copy
                yield
                # What the copy answered is older than the change, which is announced only once.
                while count != self._answers_of_copy:
                    await anyio.sleep(_READ_AGAIN)
                    if self.availability.is_due:
                        count = self._answers_of_copy
                        yield

    def _outage(self, error: RegistryError) -> RegistryError | None:
        """Why the database cannot be used at all; None if only one operation failed."""
        is_gone = isinstance(error, RegistryUnavailableError)
        if is_gone and not isinstance(error, RegistryTimeoutError):
            return error
        try:
            self._remote.ping()
        except RegistryError as outage:
            return outage
        return None
