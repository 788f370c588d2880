"""The registry in a PostgreSQL database; `registry.protocols` has its contract.

Two plain back-ends rather than one with a dialect: a statement here relies on row locks, on arrays
and on digests as keys, one of SQLite on a file that has one writer and may be damaged. What is the
same in both, how a part, settings or a server become text, is in `codec` and the records.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from discovery_engine._util.batches import batches
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
    request_queries,
    snapshot_queries,
    trust_queries,
    use_queries,
    webhook_queries,
)
from discovery_engine.registry.postgres.database_feed import (
    announced,
    database_changes,
    newest_change,
    notify,
)
from discovery_engine.registry.postgres.database_state import DatabaseState, state_of
from discovery_engine.registry.postgres.postgres_decisions import PostgresDecisions
from discovery_engine.registry.postgres.postgres_gateways import PostgresGateways
from discovery_engine.registry.postgres.postgres_queue import PostgresQueue, take_step
from discovery_engine.registry.postgres.postgres_vectors import PostgresVectors
from discovery_engine.registry.postgres.postgres_webhook_writer import event_writer
from discovery_engine.registry.postgres.postgres_webhooks import PostgresWebhooks
from discovery_engine.registry.postgres.saved_listings import SavedListings
from discovery_engine.registry.refresh_steps import success
from discovery_engine.registry.stored_snapshot import stored_parts, stored_settings

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.fleet.refresh_job import RefreshClaim
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.postgres.saved_listings import SaveMark
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.refresh_queue import SaveOutcome
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.registry.snapshot import Snapshot
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.search.usage import UseCount
    from discovery_engine.tools.model import ServerName, ToolKey

T = TypeVar("T")

_UNKNOWN = -1  # the number of no save
_PING_TIMEOUT = 2.0  # seconds
# Tools that are saved at once. All that a changed rule concerns may be more than can be saved in
# the time of an operation: 100,000 take five seconds on a busy machine.
_TOOLS_AT_ONCE = 5_000
_SERVERS_AT_ONCE = 10_000  # that are added, and dropped


class PostgresRegistry(PostgresDecisions, PostgresQueue, PostgresVectors, PostgresWebhooks):
    """Opens the database with the first call; `close` it."""

    most_scopes = snapshot_queries.SCOPES_KEPT
    indexes = None
    """An index is read with `marshal`: see `protocols.IndexStore`."""
    health = None
    """Each call raises if the database does not answer; nothing waits."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.search = database
        self.gateways = PostgresGateways(database)
        self._listings = SavedListings()
        self._saves: dict[str, int | None] = {}
        """The last save of each scope after which this object knew all that is saved of it."""
        self._fetched: dict[str, int | None] = {}
        """The save of each scope up to which this object knows what others saved of servers."""

    def load(self, scope: str) -> Snapshot | None:
        found = self.database.read(lambda db: snapshot_queries.load(db, scope))
        if found is None:
            return None
        stored, marks = found
        self._saves[scope] = self._fetched[scope] = stored.saved
        if snapshot := stored.read(scope):
            self._listings.note_read(scope, snapshot.catalog.parts.values(), marks)
        return snapshot

    def load_settings(self, scope: str) -> Settings | None:
        text = self.database.read(lambda db: snapshot_queries.settings(db, scope))
        return stored_settings(scope, text)

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        text = settings_to_text(settings)
        names = [server.name for server in settings.servers]
        self.name_servers(scope, names)

        def change_servers(db: Connection) -> bool:
            changed, is_more = snapshot_queries.change_servers(
                db, scope, names, keep_others=keep_others, most=_SERVERS_AT_ONCE
            )
            event_writer(db, scope).note_servers(changed.added, changed.removed)
            return is_more

        def save(db: Connection) -> bool:
            webhook_queries.replace_all(db, scope, settings.webhooks, keep_others=keep_others)
            snapshot_queries.save_settings(db, scope, text)
            return change_servers(db)

        is_more = self._save(scope, lambda db, _: save(db))
        while is_more:
            is_more = self._save(scope, lambda db, _: change_servers(db))

    def save_parts(
        self,
        scope: str,
        parts: Iterable[ServerPart],
        *,
        revision: int,
        decided: int | None = None,
        keep_newer: bool = False,
    ) -> None:
        new = {part.server: part for part in parts}.values()
        some = [*batches(new, lambda part: len(part.entries), most=_TOOLS_AT_ONCE)]
        for batch in some[:-1]:
            self._save_parts(scope, batch, revision, None, keep_newer=keep_newer)
        last = some[-1] if some else []
        self._save_parts(scope, last, revision, decided, keep_newer=keep_newer)

    def _save_parts(
        self,
        scope: str,
        parts: Sequence[ServerPart],
        revision: int,
        decided: int | None,
        *,
        keep_newer: bool,
    ) -> None:
        kept = {part.server: part_to_row(part) for part in parts}

        def save(db: Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            events = event_writer(db, scope)
            events.note_health(parts, are_new_listings=not keep_newer)
            if keep_newer:
                known = self._fetched.get(scope) or 0
                for name in snapshot_queries.servers_since(db, scope, known):
                    kept.pop(name, None)
            events.note_listings(part for part in parts if part.server in kept)
            snapshot_queries.save_parts(db, scope, kept, revision, decided if is_known else None)
            if kept:
                notify(db)

        self._save(scope, save)

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        known = self._fetched.get(scope) or 0
        found = self.database.read(lambda db: snapshot_queries.parts_since(db, scope, known))
        self._fetched[scope], rows, marks = found
        parts = stored_parts(scope, rows)
        self._listings.note_read(scope, parts, marks)
        return parts

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        names = None if servers is None else frozenset(servers)
        return self.database.write(lambda db: snapshot_queries.forget(db, scope, names))

    def load_era(self, connection: str) -> JSONObject | None:
        return self.database.read(lambda db: era_queries.load(db, connection))

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        self.database.write(lambda db: era_queries.save(db, connection, era))

    def state(self, *, has_secret: bool = False) -> DatabaseState:
        """What the database says of itself; see `state_of`."""
        return state_of(self.database, has_secret=has_secret)

    def ping(self) -> None:
        """Read the number of the newest decision, and wait for it only briefly.

        Raises:
            RegistryError: If it cannot be read.
        """
        self.database.read(trust_queries.number, timeout=_PING_TIMEOUT)

    async def changes(self) -> AsyncGenerator[None]:
        relayed = self.gateways.note_relayed
        changes = database_changes(self.database, newest_change, on_relayed=relayed)
        async with aclosing(changes):
            async for _ in changes:
                self.gateways.note_change()
                yield

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
        self.database.write(announced(lambda db: request_queries.save(db, kept)))

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        return self.database.write(announced(lambda db: request_queries.forget(db, tools)))

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

    @property
    def shared_leases(self) -> PostgresRegistry:
        return self

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
        mark: SaveMark | None = None

        def end_unchanged(db: Connection) -> SaveOutcome:
            nonlocal mark
            stored = snapshot_queries.compared_row(db, claim.scope, part.server)
            if not (stored and is_same_listing(stored[1], row)):
                return "saved"
            mark = stored[0]
            return "unchanged" if take_step(db, jobs, succeed) else "lost"

        # First without the lock of the scope, which is written, and which savers wait for.
        found = self.database.write(end_unchanged)

        def save(db: Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            nonlocal found, mark
            found = end_unchanged(db) if refresh_queries.is_held(db, claim) else "lost"
            if found == "saved":
                judged = decided if is_known else None
                rows = {part.server: row}
                events = event_writer(db, claim.scope)
                events.note_servers(snapshot_queries.add_servers(db, claim.scope, rows), ())
                events.note_listings([part])
                marks = snapshot_queries.save_parts(db, claim.scope, rows, revision, judged)
                mark = marks.get(part.server)
                take_step(db, jobs, succeed)
                notify(db)

        if found == "saved":
            self._save(claim.scope, save)
        if mark:
            self._listings.note(claim.scope, part, mark)
        return found

    def scopes(self) -> frozenset[str]:
        return frozenset(self.database.read(snapshot_queries.scopes))

    def save_uses(self, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
        self.database.write(lambda db: use_queries.save_all(db, scope, uses))

    def close(self) -> None:
        self.database.close()

    def _save(self, scope: str, work: Callable[[Connection, bool], T]) -> T:
        """Save with `work`, which is given whether all that is saved of the scope is known."""

        def save(db: Connection) -> tuple[T, int | None, int | None]:
            before = snapshot_queries.locked_save(db, scope)
            result = work(db, before == self._saves.get(scope))
            return result, before, snapshot_queries.locked_save(db, scope)

        result, before, after = self.database.write(save)
        # What others have saved since must be fetched still, and is not known until then.
        if before == self._fetched.get(scope):
            self._fetched[scope] = after
        self._saves[scope] = after if before == self._saves.get(scope) else _UNKNOWN
        return result
