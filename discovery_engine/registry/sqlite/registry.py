"""The registry in one SQLite file; `registry.protocols` has its contract."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.registry.codec import (
    part_to_row,
    settings_to_text,
)
from discovery_engine.registry.refresh_queue import SaveOutcome
from discovery_engine.registry.refresh_steps import success
from discovery_engine.registry.snapshot import Snapshot
from discovery_engine.registry.sqlite import (
    agent_request_table,
    decision_tables,
    era_table,
    lease_table,
    preset_table,
    refresh_table,
    request_table,
    snapshot_tables,
    usage_table,
    webhook_table,
)
from discovery_engine.registry.sqlite.busy_handler import BusyHandler
from discovery_engine.registry.sqlite.database import Database, sqlite_database
from discovery_engine.registry.sqlite.sqlite_decisions import SqliteDecisions
from discovery_engine.registry.sqlite.sqlite_queue import SqliteQueue, is_saved
from discovery_engine.registry.sqlite.sqlite_reader import SqliteReader
from discovery_engine.registry.sqlite.sqlite_vectors import SqliteVectors
from discovery_engine.registry.sqlite.sqlite_webhooks import SqliteWebhooks
from discovery_engine.registry.stored_snapshot import stored_parts, stored_settings
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshClaim
    from discovery_engine.registry.codec import PartRow
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.search.examples.written import WrittenRequests

logger = logging.getLogger(__name__)

_UNKNOWN = -1  # the number of no save


def open_sqlite(
    path: str | Path,
    *,
    patience: float | None = None,
    sqlite_version: tuple[int, ...] = sqlite3.sqlite_version_info,
    busy: BusyHandler | None = None,
    clock: Callable[[], float] = time.time,
    has_webhooks: bool = True,
) -> SqliteRegistry:
    """The registry at `path`, made with its folder if it is not there.

    Close it, or use it in a `with` statement.

    Args:
        path: Where it is.
        patience: The most seconds to wait for other processes before it can be read.
        sqlite_version: Of the SQLite in use.
        busy: Taken at it; those of the process if None.
        clock: Unix time in seconds, for the refresh queue and unused vectors.
        has_webhooks: Whether it stores events for webhooks; a copy of another registry must not.

    Raises:
        RegistryError: If it cannot be opened, or a newer version of the program made it.
    """
    database = sqlite_database(path, patience=patience, sqlite_version=sqlite_version, busy=busy)
    return SqliteRegistry(database, clock=clock, has_webhooks=has_webhooks)


class SqliteRegistry(
    SqliteReader,
    SqliteDecisions,
    SqliteQueue,
    SqliteVectors,
    SqliteWebhooks,
    AbstractContextManager["SqliteRegistry"],
):
    """Made by `open_sqlite`; closed at the end of a `with` statement."""

    most_scopes = snapshot_tables.SCOPES_KEPT
    search = None
    gateways = None

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        has_webhooks: bool = True,
    ) -> None:
        super().__init__(database)
        self._clock = clock
        self._has_webhooks = has_webhooks
        self._saves: dict[str, int | None] = {}
        """The last save of each scope after which this object knew all that is saved of it."""
        self._fetched: dict[str, int] = {}
        """The save of each scope up to which this object knows what workers saved of servers."""

    @property
    def recovered(self) -> str | None:
        """Where a damaged registry was put that stood in this one's place; None if none did."""
        return self._database.recovered

    def load(self, scope: str) -> Snapshot | None:
        stored = self._stored(scope)
        if stored is None:
            return None
        self._saves[scope] = self._fetched[scope] = stored.saved
        return stored.read(scope)

    def load_settings(self, scope: str) -> Settings | None:
        text = self._database.read(lambda db: snapshot_tables.settings(db, scope))
        return stored_settings(scope, text)

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        text = settings_to_text(settings)
        names = [server.name for server in settings.servers]
        self.name_servers(scope, names)

        def save(db: sqlite3.Connection, _: bool) -> None:  # noqa: FBT001 - called by `_save`
            if self._has_webhooks:
                webhook_table.replace_all(
                    db, scope, settings.webhooks, self._clock(), keep_others=keep_others
                )
            changed = snapshot_tables.save_settings(db, scope, text, names, keep_others=keep_others)
            self._events(db, scope).note_servers(changed.added, changed.removed)

        self._save(scope, save)

    def save_parts(
        self,
        scope: str,
        parts: Iterable[ServerPart],
        *,
        revision: int,
        decided: int | None = None,
        keep_newer: bool = False,
    ) -> None:
        new = {part.server: part for part in parts}
        kept = {name: part_to_row(part) for name, part in new.items()}

        def save(db: sqlite3.Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            events = self._events(db, scope)
            events.note_health(new.values(), are_new_listings=not keep_newer)
            if keep_newer:
                known = self._fetched.get(scope, 0)
                for name in snapshot_tables.servers_since(db, scope, known):
                    kept.pop(name, None)
            events.note_listings(new[name] for name in kept)
            judged = decided if is_known else None
            snapshot_tables.save_parts(db, scope, kept, revision, judged)
            for name in kept:
                if not keep_newer or new[name].failure:
                    snapshot_tables.mark_saved(db, scope, name)

        self._save(scope, save)

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        known = self._fetched.get(scope, 0)

        def changed(db: sqlite3.Connection) -> tuple[int, list[PartRow | None]]:
            names = snapshot_tables.servers_since(db, scope, known)
            rows = [snapshot_tables.row_of(db, scope, name) for name in names]
            return snapshot_tables.last_save(db, scope) or known, rows

        self._fetched[scope], rows = self._database.read(changed)
        return stored_parts(scope, filter(None, rows))

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        names = None if servers is None else frozenset(servers)
        return self._database.write(lambda db: snapshot_tables.forget(db, scope, names))

    def load_era(self, connection: str) -> JSONObject | None:
        return self._database.read(lambda db: era_table.load(db, connection))

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        self._database.write(lambda db: era_table.save(db, connection, era))

    def changes(self) -> AsyncGenerator[None]:
        # Most processes end long before anything changes, and start sooner without an event loop.
        from discovery_engine.registry.sqlite.changes import decision_changes  # noqa: PLC0415

        database = self._database

        def newest() -> tuple[int, str, int]:
            decision = database.read_newest(decision_tables.newest)
            saved = database.read(snapshot_tables.newest_listing)
            return decision, database.read(request_table.mark), saved

        return decision_changes(database.path, newest)

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        self._database.write(lambda db: usage_table.count(db, scope, key, at))

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:
        kept = tuple(written)
        self._database.write(lambda db: request_table.save(db, kept))

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        return self._database.write(lambda db: request_table.forget(db, tools))

    def agent_requests(self, scope: str) -> tuple[AgentRequest, ...]:
        return self._database.read(lambda db: agent_request_table.load(db, scope))

    def save_agent_request(self, scope: str, request: AgentRequest) -> None:
        self._database.write(lambda db: agent_request_table.save(db, scope, request))

    def replace_agent_request(self, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
        return self._database.write(
            lambda db: agent_request_table.replace_one(db, scope, known, new)
        )

    def presets(self, scope: str) -> tuple[Preset, ...]:
        return self._database.read(lambda db: preset_table.load(db, scope))

    def save_preset(self, scope: str, preset: Preset) -> None:
        self._database.write(lambda db: preset_table.save(db, scope, preset))

    def delete_preset(self, scope: str, key: tuple[str, str, str]) -> bool:
        return self._database.write(lambda db: preset_table.delete(db, scope, key))

    @property
    def shared_leases(self) -> SqliteRegistry:
        return self

    def lease(self, name: str) -> Lease | None:
        return self._database.read(lambda db: lease_table.load(db, name))

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        return self._database.write(lambda db: lease_table.acquire(db, name, holder, instead_of))

    def renew_lease(self, lease: Lease) -> Lease | None:
        return self._database.write(lambda db: lease_table.renew(db, lease))

    def release_lease(self, lease: Lease) -> None:
        self._database.write(lambda db: lease_table.release(db, lease))

    def save_claimed(
        self,
        claim: RefreshClaim,
        part: ServerPart,
        *,
        due_in: float,
        revision: int,
        decided: int | None = None,
    ) -> SaveOutcome:
        row = part_to_row(part)
        jobs, succeed = success(claim, part, due_in)
        found: SaveOutcome = "lost"

        def save(db: sqlite3.Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            nonlocal found
            if not refresh_table.is_held(db, claim):
                found = "lost"
                return
            found = "unchanged" if is_saved(db, claim.scope, part.server, row) else "saved"
            if found == "saved":
                judged = decided if is_known else None
                rows = {part.server: row}
                events = self._events(db, claim.scope)
                events.note_servers(snapshot_tables.add_servers(db, claim.scope, rows), ())
                events.note_listings([part])
                snapshot_tables.save_parts(db, claim.scope, rows, revision, judged)
                snapshot_tables.mark_saved(db, claim.scope, part.server)
            self._step_within(db, jobs, succeed)

        self._save(claim.scope, save)
        return found

    def _save(self, scope: str, work: Callable[[sqlite3.Connection, bool], None]) -> None:
        """Save with `work`, which is given whether all that is saved of the scope is known."""

        def save(db: sqlite3.Connection) -> tuple[int | None, int | None]:
            before = snapshot_tables.last_save(db, scope)
            work(db, before == self._saves.get(scope))
            return before, snapshot_tables.last_save(db, scope)

        before, after = self._database.write(save)
        # What others have saved since must be fetched still.
        if after is not None and before == self._fetched.get(scope):
            self._fetched[scope] = after
        self._saves[scope] = after if before == self._saves.get(scope) else _UNKNOWN

    def scopes(self) -> frozenset[str]:
        return frozenset(self._database.read(snapshot_tables.scopes))

    def save_uses(self, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
        self._database.write(lambda db: usage_table.save(db, scope, uses))

    def __exit__(self, *_: object) -> None:
        self.close()
