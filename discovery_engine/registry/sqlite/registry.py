"""The registry in one SQLite file; `registry.protocols` has its contract."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.registry.codec import (
    is_same_listing,
    part_to_row,
    settings_to_text,
)
from discovery_engine.registry.protocols import RegistryHealth, SaveOutcome, Snapshot
from discovery_engine.registry.sqlite import (
    agent_request_table,
    decision_tables,
    era_table,
    index_table,
    lease_table,
    preset_table,
    refresh_table,
    request_table,
    server_tables,
    snapshot_tables,
    usage_table,
    vector_tables,
    webhook_table,
)
from discovery_engine.registry.sqlite.busy_handler import BusyHandler, busy_handler_at
from discovery_engine.registry.sqlite.database import Database
from discovery_engine.registry.sqlite.decision_log import DecisionLog
from discovery_engine.registry.sqlite.journal import JournalHead
from discovery_engine.registry.sqlite.sqlite_queue import SqliteQueue
from discovery_engine.registry.sqlite.sqlite_webhooks import SqliteWebhooks
from discovery_engine.registry.stored_snapshot import stored_parts, stored_settings
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshClaim
    from discovery_engine.registry.codec import PartRow
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.records import (
        AcceptanceRecord,
        DecisionExport,
        EffectiveDecisions,
    )
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.registry.server_records import RegisteredServer, ServerSwitches
    from discovery_engine.search.examples.written import WrittenRequests

logger = logging.getLogger(__name__)

_UNKNOWN = -1  # the number of no save


def open_sqlite(
    path: str | Path,
    *,
    is_thorough: bool = True,
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
        is_thorough: Compare each line of the journal, too, if it was changed since it was compared.
        patience: The most seconds to wait for other processes before it can be read.
        sqlite_version: Of the SQLite in use.
        busy: Taken at it; those of the process if None.
        clock: Unix time in seconds, for the refresh queue.
        has_webhooks: Whether it stores events for webhooks; a copy of another registry must not.

    Raises:
        RegistryError: If it cannot be opened, or a newer version of the program made it.
    """
    database = sqlite_database(
        path,
        is_thorough=is_thorough,
        patience=patience,
        sqlite_version=sqlite_version,
        busy=busy,
    )
    return SqliteRegistry(database, clock=clock, has_webhooks=has_webhooks)


def sqlite_database(
    path: str | Path,
    *,
    is_thorough: bool = True,
    patience: float | None = None,
    sqlite_version: tuple[int, ...] = sqlite3.sqlite_version_info,
    busy: BusyHandler | None = None,
) -> Database:
    """The file of a registry; see `open_sqlite`."""
    place = Path(path).absolute()
    busy = busy or busy_handler_at(place)
    return Database(
        place,
        sqlite_version=sqlite_version,
        busy=busy,
        log=DecisionLog(place, busy, patience=patience),
        is_thorough=is_thorough,
        patience=patience,
    )


class SqliteRegistry(SqliteQueue, SqliteWebhooks, AbstractContextManager["SqliteRegistry"]):
    """Made by `open_sqlite`; closed at the end of a `with` statement."""

    health: RegistryHealth | None = None
    search = None

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        has_webhooks: bool = True,
    ) -> None:
        self._database = database
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
        rows = self._database.read(lambda db: snapshot_tables.rows(db, scope))
        if rows is None:
            return None
        self._saves[scope] = self._fetched[scope] = rows.saved
        return rows.read(scope)

    def load_settings(self, scope: str) -> Settings | None:
        text = self._database.read(lambda db: snapshot_tables.settings(db, scope))
        return stored_settings(scope, text)

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        text = settings_to_text(settings)
        names = [server.name for server in settings.servers]

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

    @property
    def indexes(self) -> SqliteRegistry:
        return self

    def load_index(self, scope: str) -> bytes | None:
        index = self._database.read(lambda db: index_table.load(db, scope))
        if index is None or self._database.is_private():
            return index
        logger.info(
            "Others may write to the registry %s, or replace it, so its search index is not read"
            " and built again: `chmod go-w` the file and the folders above it",
            self._database.path,
        )
        self._database.write(index_table.drop)
        return None

    def save_index(self, scope: str, data: bytes) -> None:
        if self._database.is_private():
            self._database.write(lambda db: index_table.save(db, scope, data))

    def load_era(self, connection: str) -> JSONObject | None:
        return self._database.read(lambda db: era_table.load(db, connection))

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        self._database.write(lambda db: era_table.save(db, connection, era))

    def newest_decision(self) -> int:
        return self._database.read_newest(decision_tables.head).number

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        return self._database.read_verified(
            lambda db, counts: decision_tables.approvals(db, scope)  # noqa: ARG005 - of others
        )

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        return self._database.read_verified(
            lambda db, counts: decision_tables.accepted(db, scope, server, counts)
        )

    def decisions(self, scope: str) -> Decisions:
        return self._database.read_decisions(lambda db: decision_tables.decisions(db, scope))

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        kept = tuple(approvals)
        self._database.decide(lambda db: (None, decision_tables.approve(db, scope, kept, at)))

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        names = tuple(servers)
        return self._database.decide(lambda db: decision_tables.revoke(db, scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        if kept := tuple(found):
            accept = partial(decision_tables.accept, scope=scope, found=kept, at=at, if_new=if_new)
            return self._database.decide(lambda db: (len(new := accept(db)), new))
        return 0

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return self._database.read(lambda db: decision_tables.history(db, scope, server))

    def lost_at(self, scope: str) -> float | None:
        return self._database.read(lambda db: decision_tables.lost_at(db, scope))

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        self._database.decide(lambda db: (None, decision_tables.acknowledge(db, scope, at)))

    def servers_mark(self, scope: str) -> str:
        return self._database.read(lambda db: server_tables.mark(db, scope))

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        return self._database.read_verified(
            lambda db, counts: server_tables.servers(db, scope)  # noqa: ARG005 - of others
        )

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        kept = tuple(servers)
        self._database.decide(lambda db: (None, server_tables.save(db, scope, kept)))

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        gone = tuple(names)
        return self._database.decide(lambda db: server_tables.delete(db, scope, gone))

    def switches(self, scope: str) -> ServerSwitches:
        return self._database.read_verified(
            lambda db, counts: server_tables.switches(db, scope)  # noqa: ARG005 - of others
        )

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        self._database.decide(lambda db: (None, server_tables.switch(db, scope, wanted, at)))

    def changes(self) -> AsyncGenerator[None]:
        # Most processes end long before anything changes, and start sooner without an event loop.
        from discovery_engine.registry.sqlite.changes import decision_changes  # noqa: PLC0415

        database = self._database

        def newest() -> tuple[JournalHead, str, int]:
            head = database.read_newest(decision_tables.head)
            saved = database.read(snapshot_tables.newest_of_workers)
            return head, database.read(request_table.mark), saved

        return decision_changes(database.path, newest)

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        return self._database.read(lambda db: vector_tables.vectors(db, model, digests))

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        self._database.write(lambda db: vector_tables.save(db, scope, model, vectors))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        return self._database.write(lambda db: vector_tables.keep(db, scope, model, digests))

    def vector_count(self, scope: str) -> int:
        return self._database.read(lambda db: vector_tables.count(db, scope))

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        return self._database.read(lambda db: usage_table.uses(db, scope))

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        self._database.write(lambda db: usage_table.count(db, scope, key, at))

    def requests_mark(self) -> str:
        return self._database.read(request_table.mark)

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        return self._database.read(request_table.load)

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
        self, claim: RefreshClaim, part: ServerPart, *, revision: int, decided: int | None = None
    ) -> SaveOutcome:
        row = part_to_row(part)

        def outcome(db: sqlite3.Connection) -> SaveOutcome:
            if not refresh_table.is_held(db, claim):
                return "lost"
            stored = snapshot_tables.row_of(db, claim.scope, part.server)
            return "unchanged" if stored and is_same_listing(stored, row) else "saved"

        if (found := self._database.read(outcome)) != "saved":
            return found
        found = "lost"

        def save(db: sqlite3.Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            nonlocal found
            if (found := outcome(db)) == "saved":
                judged = decided if is_known else None
                rows = {part.server: row}
                events = self._events(db, claim.scope)
                events.note_servers(snapshot_tables.add_servers(db, claim.scope, rows), ())
                events.note_listings([part])
                snapshot_tables.save_parts(db, claim.scope, rows, revision, judged)
                snapshot_tables.mark_saved(db, claim.scope, part.server)

        self._save(claim.scope, save)
        return found

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        kept = tuple(found)

        def accept(db: sqlite3.Connection) -> tuple[int | None, list[AcceptanceRecord]]:
            if not refresh_table.is_held(db, claim):
                return None, []
            new = decision_tables.accept(db, scope, kept, at, if_new=True)
            return len(new), new

        return self._database.decide(accept)

    def _save(self, scope: str, work: Callable[[sqlite3.Connection, bool], None]) -> None:
        """Save with `work`, which is given whether all that is saved of the scope is known."""

        def save(db: sqlite3.Connection) -> tuple[int | None, int | None]:
            before = snapshot_tables.last_save(db, scope)
            work(db, before == self._saves.get(scope))
            return before, snapshot_tables.last_save(db, scope)

        before, after = self._database.write(save)
        # What workers have saved since must be fetched still.
        if after is not None and before == self._fetched.get(scope):
            self._fetched[scope] = after
        self._saves[scope] = after if before == self._saves.get(scope) else _UNKNOWN

    def scopes(self) -> frozenset[str]:
        return frozenset(self._database.read(snapshot_tables.scopes))

    def save_uses(self, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
        self._database.write(lambda db: usage_table.save(db, scope, uses))

    def used_vectors(self, scope: str) -> Mapping[tuple[str, bytes], bytes]:
        return self._database.read(lambda db: vector_tables.used(db, scope))

    def export_decisions(self) -> DecisionExport:
        from discovery_engine.registry.records import DecisionExport  # noqa: PLC0415 - seldom

        def export(db: sqlite3.Connection) -> DecisionExport:
            stored = decision_tables.stored(db)
            return DecisionExport(stored.head.number, stored.effective, server_tables.marks(db))

        return self._database.read_decisions(export)

    def import_decisions(self, decisions: DecisionExport) -> None:
        def write(db: sqlite3.Connection) -> tuple[int, EffectiveDecisions]:
            decision_tables.replace(db, decisions.effective)
            server_tables.set_marks(db, decisions.marks)
            return decisions.number, decisions.effective

        self._database.replace_decisions(write)

    def close(self) -> None:
        self._database.close()

    def __exit__(self, *_: object) -> None:
        self.close()
