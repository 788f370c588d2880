"""The registry in memory: SQLite without a file, which ends with its process.

It also stands in for a registry that cannot be opened, or is switched off. The one rule then:
listings may be lost at the end, but a decision is refused rather than accepted and lost.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from discovery_engine.errors import RegistryError
from discovery_engine.registry.records import EVERY_SCOPE, DecisionExport, LossRecord
from discovery_engine.registry.sqlite.busy_handler import BusyHandler
from discovery_engine.registry.sqlite.database import Database
from discovery_engine.registry.sqlite.decision_mark import DecisionMark
from discovery_engine.registry.sqlite.file_connection import FileConnection
from discovery_engine.registry.sqlite.migrations import migrate
from discovery_engine.registry.sqlite.registry import SqliteRegistry
from discovery_engine.trust.decisions import UNREAD

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshTarget
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.server_records import RegisteredServer
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import Acceptance, Approval


class MemoryRegistry(SqliteRegistry):
    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(_MemoryDatabase(clock))

    async def changes(self) -> AsyncGenerator[None]:
        import anyio  # noqa: PLC0415 - only processes that run for long follow changes

        yield
        await anyio.sleep_forever()  # no other process can decide anything here


class FallbackRegistry(MemoryRegistry):
    """In place of a registry that cannot be used, for which `reason` and `hint` are given.

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

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:  # noqa: ARG002 - the same
        self._refuse("what is written for tools cannot be kept")

    def save_preset(self, scope: str, preset: Preset) -> None:  # noqa: ARG002 - the same
        self._refuse("a preset cannot be kept")

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:  # noqa: ARG002 - the same
        self._refuse_decision()

    def revoke(self, scope: str, servers: Iterable[str]) -> int:  # noqa: ARG002 - the same
        self._refuse_decision()

    def acknowledge_loss(self, scope: str, *, at: float) -> None:  # noqa: ARG002 - the same
        self._refuse_decision()

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:  # noqa: ARG002 - the same
        self._refuse_decision()

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:  # noqa: ARG002 - the same
        self._refuse_decision()

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:  # noqa: ARG002 - the same
        self._refuse_decision()

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        """Remember for this run what is seen for the first time, which its owner has not decided.

        Raises:
            RegistryError: For anything else.
        """
        if not if_new:
            self._refuse_decision()
        return super().accept(scope, found, at=at, if_new=True)

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:  # noqa: ARG002 - the same
        self._refuse("there is no queue that workers could share")

    def _refuse_decision(self) -> NoReturn:
        self._refuse("the decision cannot be kept")

    def _refuse(self, what: str) -> NoReturn:
        raise RegistryError(f"{what}: {self._reason}", hint=self._hint)


class _MemoryDatabase(Database):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(
            Path("memory"), busy=BusyHandler(), mark=_NoMark(), patience=None, clock=clock
        )

    def is_private(self) -> bool:
        return True

    def _follow(self) -> None:
        """Nothing can take its place."""

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
