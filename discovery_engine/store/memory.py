"""The registry in memory: SQLite without a file, which ends with its process.

It also stands in for a registry that cannot be opened, or is switched off. The one rule then:
listings may be lost at the end, but a decision is refused rather than accepted and lost.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from discovery_engine.errors import RegistryError
from discovery_engine.store.records import EVERY_SCOPE, DecisionExport, LossRecord
from discovery_engine.store.sqlite.busy_handler import BusyHandler
from discovery_engine.store.sqlite.database import Database
from discovery_engine.store.sqlite.decision_mark import DecisionMark
from discovery_engine.store.sqlite.file_connection import FileConnection
from discovery_engine.store.sqlite.migrations import migrate
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry
from discovery_engine.trust.decisions import UNREAD

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import Acceptance

C = TypeVar("C", bound=type)


class MemoryRegistry(SqliteRegistry):
    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(_MemoryDatabase(clock))

    async def changes(self) -> AsyncGenerator[None]:
        import anyio  # noqa: PLC0415 - only processes that run for long follow changes

        yield
        await anyio.sleep_forever()  # no other process can decide anything here


def _refuses(what: str, *names: str) -> Callable[[C], C]:
    """Have methods of a fallback raise `RegistryError`, with what they cannot do."""

    def refuse(self: FallbackRegistry, *_: object, **__: object) -> NoReturn:
        self._refuse(what)

    def decorate(cls: C) -> C:
        for name in names:
            setattr(cls, name, refuse)
        return cls

    return decorate


_NO_DECISION = "the decision cannot be kept"


@_refuses(_NO_DECISION, "approve", "revoke", "acknowledge_loss")
@_refuses(_NO_DECISION, "save_servers", "delete_servers", "set_switches", "set_rules")
@_refuses("what is written for tools cannot be kept", "save_requests")
@_refuses("a preset cannot be kept", "save_preset")
@_refuses("there is no queue that workers could share", "plan_refreshes")
class FallbackRegistry(MemoryRegistry):
    """Stands in for a registry that cannot be used, with a `reason` and a `hint`.

    Args:
        reason: Why what is to be kept cannot be.
        hint: What to do about it.
        is_unread: The registry may hold decisions, so nothing is accepted at first sight.
        is_stand_in: There is a registry, in which things are remembered that could be forgotten.
    """

    def __init__(
        self, reason: str, *, hint: str, is_stand_in: bool = False, is_unread: bool = False
    ) -> None:
        super().__init__()
        self._reason = reason
        self._hint = hint
        self._is_stand_in = is_stand_in
        if is_unread:
            unread = DecisionExport(1, (LossRecord(EVERY_SCOPE, UNREAD),), {})
            self.import_decisions(unread)

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        if self._is_stand_in:
            self._refuse("what is remembered cannot be forgotten")
        return super().forget(scope, servers)

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        """Remember for this run what is seen for the first time, which its owner has not decided.

        Raises:
            RegistryError: For anything else.
        """
        if not if_new:
            self._refuse(_NO_DECISION)
        return super().accept(scope, found, at=at, if_new=True)

    def _refuse(self, what: str) -> NoReturn:
        raise RegistryError(f"{what}: {self._reason}", hint=self._hint)


class _MemoryDatabase(Database):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(
            Path("memory"), busy=BusyHandler(), mark=_NoMark(), patience=None, clock=clock
        )

    def is_private(self) -> bool:
        return True

    def _is_there(self) -> bool:
        return True  # nothing can take its place

    def _connected(self) -> FileConnection:
        connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, factory=FileConnection
        )
        connection.clock = self.clock
        migrate(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


class _NoMark(DecisionMark):
    """Nothing is lost before the process ends."""

    def __init__(self) -> None:
        """There is no file."""

    def check(
        self, connection: FileConnection, *, rows: bool = False, was_damaged: bool = False
    ) -> None: ...

    def note(self, number: int, scopes: Iterable[str]) -> None: ...

    def write(self, number: int, scopes: Iterable[str]) -> None: ...

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield
