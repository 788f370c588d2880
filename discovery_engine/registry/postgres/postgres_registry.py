"""The registry in a PostgreSQL database; `registry.protocols` has its contract.

Two plain back-ends rather than one with a dialect: a statement here relies on row locks, on arrays
and on digests as keys, one of SQLite on a file that has one writer and may be damaged. What is the
same in both, how a part, settings or a server become text, is in `codec` and the records.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from discovery_engine.registry.codec import (
    is_same_listing,
    part_to_row,
    settings_to_text,
)
from discovery_engine.registry.postgres import (
    agent_request_queries,
    era_queries,
    lease_queries,
    preset_queries,
    refresh_queries,
    registered_queries,
    request_queries,
    snapshot_queries,
    trust_queries,
    use_queries,
    vector_queries,
    webhook_queries,
)
from discovery_engine.registry.postgres.database_feed import (
    database_changes,
    newest_change,
    notify,
)
from discovery_engine.registry.postgres.postgres_queue import PostgresQueue
from discovery_engine.registry.postgres.postgres_webhook_writer import event_writer
from discovery_engine.registry.postgres.postgres_webhooks import PostgresWebhooks
from discovery_engine.registry.postgres.restricted_roles import RestrictedRoles
from discovery_engine.registry.postgres.search_documents import PostgresSearchStore
from discovery_engine.registry.records import EVERY_SCOPE
from discovery_engine.registry.stored_snapshot import stored_parts, stored_settings

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.fleet.refresh_job import RefreshClaim
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.protocols import SaveOutcome, Snapshot
    from discovery_engine.registry.records import DecisionExport
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.registry.server_records import RegisteredServer, ServerSwitches
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.search.usage import UseCount
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

T = TypeVar("T")

_UNKNOWN = -1  # the number of no save


class PostgresRegistry(PostgresQueue, PostgresWebhooks):
    """Opens the database with the first call; `close` it."""

    indexes = None
    """An index is read with `marshal`: see `protocols.IndexStore`."""
    health = None
    """Each call raises if the database does not answer; nothing waits."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.search = PostgresSearchStore(database)
        self.roles = RestrictedRoles(database)
        self._saves: dict[str, int | None] = {}
        """The last save of each scope after which this object knew all that is saved of it."""
        self._fetched: dict[str, int | None] = {}
        """The save of each scope up to which this object knows what others saved of servers."""

    def load(self, scope: str) -> Snapshot | None:
        stored = self.database.read(lambda db: snapshot_queries.load(db, scope))
        if stored is None:
            return None
        self._saves[scope] = self._fetched[scope] = stored.saved
        return stored.read(scope)

    def load_settings(self, scope: str) -> Settings | None:
        text = self.database.read(lambda db: snapshot_queries.settings(db, scope))
        return stored_settings(scope, text)

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        text = settings_to_text(settings)
        names = [server.name for server in settings.servers]

        def save(db: Connection, _: bool) -> None:  # noqa: FBT001 - called by `_save`
            webhook_queries.replace_all(db, scope, settings.webhooks, keep_others=keep_others)
            changed = snapshot_queries.save_settings(
                db, scope, text, names, keep_others=keep_others
            )
            event_writer(db, scope).note_servers(changed.added, changed.removed)

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

        def save(db: Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            events = event_writer(db, scope)
            events.note_health(new.values(), are_new_listings=not keep_newer)
            if keep_newer:
                known = self._fetched.get(scope) or 0
                for name in snapshot_queries.servers_since(db, scope, known):
                    kept.pop(name, None)
            events.note_listings(new[name] for name in kept)
            snapshot_queries.save_parts(db, scope, kept, revision, decided if is_known else None)
            if kept:
                notify(db)

        self._save(scope, save)

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        known = self._fetched.get(scope) or 0
        last, rows = self.database.read(lambda db: snapshot_queries.parts_since(db, scope, known))
        self._fetched[scope] = last
        return stored_parts(scope, rows)

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        names = None if servers is None else frozenset(servers)
        return self.database.write(lambda db: snapshot_queries.forget(db, scope, names))

    def load_era(self, connection: str) -> JSONObject | None:
        return self.database.read(lambda db: era_queries.load(db, connection))

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        self.database.write(lambda db: era_queries.save(db, connection, era))

    def newest_decision(self) -> int:
        return self.database.read(trust_queries.number)

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        return self.database.read(lambda db: trust_queries.approvals(db, scope))

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        return self.database.read(lambda db: trust_queries.accepted(db, scope, server))

    def decisions(self, scope: str) -> Decisions:
        return self.database.read(lambda db: trust_queries.decisions(db, scope))

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        new = tuple(approvals)

        def approve(db: Connection, number: int) -> tuple[None, int]:
            return None, trust_queries.approve(db, scope, new, at, number)

        self._decide(approve)

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        names = tuple(servers)
        return self._decide(lambda db, _: trust_queries.revoke(db, scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        new = tuple(found)

        def accept(db: Connection, number: int) -> tuple[int, int]:
            count = trust_queries.accept(db, scope, new, at, number, if_new=if_new)
            return count, count

        return self._decide(accept) if new else 0

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return self.database.read(lambda db: trust_queries.history(db, scope, server))

    def lost_at(self, scope: str) -> float | None:
        return self.database.read(lambda db: trust_queries.lost_at(db, scope))

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        def acknowledge(db: Connection, _: int) -> tuple[None, int]:
            if (lost := trust_queries.lost_at(db, scope)) is None:
                return None, 0
            trust_queries.save_loss(db, scope, lost, at)
            return None, 1

        self._decide(acknowledge)

    def servers_mark(self, scope: str) -> str:
        return self.database.read(lambda db: registered_queries.mark(db, scope))

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        return self.database.read(lambda db: registered_queries.servers(db, scope))

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        kept = tuple(servers)

        def save(db: Connection, number: int) -> tuple[None, int]:
            return None, registered_queries.save(db, scope, kept, number)

        self._decide(save)

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        gone = tuple(names)

        def delete(db: Connection, _: int) -> tuple[int, int]:
            count = registered_queries.delete(db, scope, gone)
            return count, count

        return self._decide(delete)

    def switches(self, scope: str) -> ServerSwitches:
        return self.database.read(lambda db: registered_queries.switches(db, scope))

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        def switch(db: Connection, _: int) -> tuple[None, int]:
            return None, registered_queries.switch(db, scope, wanted, at)

        self._decide(switch)

    def changes(self) -> AsyncGenerator[None]:
        return database_changes(self.database, newest_change)

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        return self.database.read(lambda db: vector_queries.vectors(db, model, digests))

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        self.database.write(lambda db: vector_queries.save(db, scope, model, vectors))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        return self.database.write(lambda db: vector_queries.keep(db, scope, model, digests))

    def vector_count(self, scope: str) -> int:
        return self.database.read(lambda db: vector_queries.count(db, scope))

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        return self.database.read(lambda db: use_queries.uses(db, scope))

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        self.database.write(lambda db: use_queries.count(db, scope, key, at))

    def requests_mark(self) -> str:
        return self.database.read(request_queries.mark)

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        return self.database.read(request_queries.load)

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:
        kept = tuple(written)
        self._announced(lambda db: request_queries.save(db, kept))

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        return self._announced(lambda db: request_queries.forget(db, tools))

    def agent_requests(self, scope: str) -> tuple[AgentRequest, ...]:
        return self.database.read(lambda db: agent_request_queries.load(db, scope))

    def save_agent_request(self, scope: str, request: AgentRequest) -> None:
        self.database.write(lambda db: agent_request_queries.save(db, scope, request))

    def replace_agent_request(self, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
        return self.database.write(
            lambda db: agent_request_queries.replace_one(db, scope, known, new)
        )

    def presets(self, scope: str) -> tuple[Preset, ...]:
        return self.database.read(lambda db: preset_queries.load(db, scope))

    def save_preset(self, scope: str, preset: Preset) -> None:
        self.database.write(lambda db: preset_queries.save(db, scope, preset))

    def delete_preset(self, scope: str, key: tuple[str, str, str]) -> bool:
        return self.database.write(lambda db: preset_queries.delete(db, scope, key))

    def lease(self, name: str) -> Lease | None:
        return self.database.read(lambda db: lease_queries.load(db, name))

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        return self.database.write(lambda db: lease_queries.acquire(db, name, holder, instead_of))

    def renew_lease(self, lease: Lease) -> Lease | None:
        return self.database.write(lambda db: lease_queries.renew(db, lease))

    def release_lease(self, lease: Lease) -> None:
        self.database.write(lambda db: lease_queries.release(db, lease))

    def save_claimed(
        self, claim: RefreshClaim, part: ServerPart, *, revision: int, decided: int | None = None
    ) -> SaveOutcome:
        row = part_to_row(part)

        def outcome(db: Connection, *, lock: bool) -> SaveOutcome:
            if not refresh_queries.is_held(db, claim, lock=lock):
                return "lost"
            stored = snapshot_queries.row_of(db, claim.scope, part.server)
            return "unchanged" if stored and is_same_listing(stored, row) else "saved"

        # Where nothing has changed no row is locked either: that would be written.
        found = self.database.read(lambda db: outcome(db, lock=False))
        if found != "saved":
            return found

        def save(db: Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            nonlocal found
            if (found := outcome(db, lock=True)) == "saved":
                judged = decided if is_known else None
                rows = {part.server: row}
                events = event_writer(db, claim.scope)
                events.note_servers(snapshot_queries.add_servers(db, claim.scope, rows), ())
                events.note_listings([part])
                snapshot_queries.save_parts(db, claim.scope, rows, revision, judged)
                notify(db)

        self._save(claim.scope, save)
        return found

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        new = tuple(found)

        def accept(db: Connection, number: int) -> tuple[int | None, int]:
            if not refresh_queries.is_held(db, claim, lock=True):
                return None, 0
            count = trust_queries.accept(db, scope, new, at, number, if_new=True)
            return count, count

        return self._decide(accept)

    def scopes(self) -> frozenset[str]:
        return frozenset(self.database.read(snapshot_queries.scopes))

    def save_uses(self, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
        self.database.write(lambda db: use_queries.save_all(db, scope, uses))

    def used_vectors(self, scope: str) -> Mapping[tuple[str, bytes], bytes]:
        return self.database.read(lambda db: vector_queries.used(db, scope))

    def export_decisions(self) -> DecisionExport:
        return self.database.read(trust_queries.export)

    def import_decisions(self, decisions: DecisionExport) -> None:
        self._announced(lambda db: trust_queries.replace(db, decisions))

    def report_loss(self, *, at: float) -> None:
        """Withhold, in every scope, what is not known to be accepted, until its owner agrees."""

        def report(db: Connection, _: int) -> tuple[None, int]:
            trust_queries.save_loss(db, EVERY_SCOPE, at, None)
            return None, 1

        self._decide(report)

    def close(self) -> None:
        self.database.close()

    def _save(self, scope: str, work: Callable[[Connection, bool], None]) -> None:
        """Save with `work`, which is given whether all that is saved of the scope is known."""

        def save(db: Connection) -> tuple[int | None, int | None, bool]:
            before = snapshot_queries.locked_save(db, scope)
            work(db, before == self._saves.get(scope))
            after, is_published = snapshot_queries.present_save(db, scope)
            if not is_published:
                return before, after, False
            notify(db)
            return before, after, self.roles.publish(db, scope)

        before, after, is_more = self.database.write(save)
        if is_more:
            self.roles.publish_rest(scope)
        # What others have saved since must be fetched still, and is not known until then.
        if before == self._fetched.get(scope):
            self._fetched[scope] = after
        self._saves[scope] = after if before == self._saves.get(scope) else _UNKNOWN

    def _decide(self, work: Callable[[Connection, int], tuple[T, int]]) -> T:
        """Do `work`, given the number of the newest decision; it returns how many it made."""

        def decide(db: Connection) -> T:
            newest = trust_queries.lock_number(db)
            result, count = work(db, newest)
            if count:
                trust_queries.set_number(db, newest + count)
                notify(db)
            return result

        return self.database.write(decide)

    def _announced(self, work: Callable[[Connection], T]) -> T:
        def announced(db: Connection) -> T:
            result = work(db)
            notify(db)
            return result

        return self.database.write(announced)
