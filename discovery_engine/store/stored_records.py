"""The records of a registry, in a file and in a database alike."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from discovery_engine._util.batches import batches
from discovery_engine._util.json import JSONObject
from discovery_engine.search.usage import UseCount
from discovery_engine.store.statements import reads, writes
from discovery_engine.store.stored_reader import StoredReader
from discovery_engine.store.stored_text import from_column, key_of, to_column
from discovery_engine.store.tables import request_table, vector_table, webhook_table
from discovery_engine.store.tables.webhook_table import NoEvents

if TYPE_CHECKING:
    from discovery_engine.search.examples.book import WrittenRequests
    from discovery_engine.store.statements import Connection
    from discovery_engine.store.webhooks import Delivery, WebhookState
    from discovery_engine.tools.model import ToolKey

AgentAction: TypeAlias = Literal["install", "uninstall", "activate", "deactivate", "sync"]
RequestState: TypeAlias = Literal["waiting", "deciding", "accepted", "declined", "failed"]


class AgentRequest(Struct, frozen=True):
    """A request of an agent for something that only the owner does."""

    id: str
    action: AgentAction
    name: str = ""
    """The name of the server, or of the entry of the marketplace; empty for `sync`."""
    arguments: JSONObject = field(default_factory=dict)
    """Everything else that the agent gave; untrusted text."""
    client: str = ""
    """Who asked, as far as it is known."""
    created_at: float = 0.0
    """Unix time in seconds."""
    state: RequestState = "waiting"
    decided_at: float | None = None
    outcome: str = ""
    """The result, for the agent: a server's name, or the reason why there is none."""

    def asks_the_same(self, other: AgentRequest) -> bool:
        mine = self.action, self.name, self.arguments
        return mine == (other.action, other.name, other.arguments)


class Preset(Struct, frozen=True):
    """Arguments of a tool that its owner keeps under a name, to call it with them again."""

    server: str
    tool: str
    name: str
    arguments: JSONObject = field(default_factory=dict)
    updated_at: float = 0.0
    """Unix time in seconds."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that identifies it in its scope; presets are sorted by it."""
        return self.server, self.tool, self.name


class Lease(Struct, frozen=True):
    """What one process at a time may hold, among all that share a registry.

    It has no time of its own, as clocks jump and machines sleep. Who waits for it watches, by a
    clock of their own, for how long one process has it, and takes it if that is too long.
    """

    name: str
    holder: str
    """The process that holds it, by a name that no other ever has; empty once it is released."""
    fence: int
    """One more whenever it is acquired: the higher one counts."""

    @property
    def is_free(self) -> bool:
        return not self.holder


logger = logging.getLogger(__name__)

ERAS_KEPT = 100_000  # connections; the oldest are dropped first
REQUESTS_KEPT = 500  # of agents under a scope; the oldest are dropped first
_VECTORS_AT_ONCE = 2_000  # in one transaction: 200,000 take longer than one may


class StoredRecords(StoredReader):
    """The part of a registry that needs nothing but transactions."""

    _has_webhooks = True
    """True if events for webhooks are stored; a copy of another registry must not store them."""

    def _events(self, connection: Connection, scope: str) -> NoEvents:
        """Return the writer of events for webhooks, within a transaction."""
        return event_writer(connection, scope) if self._has_webhooks else NoEvents()

    # How servers introduced themselves

    @reads
    def load_era(self, db: Connection, connection: str) -> JSONObject | None:
        """How a server last introduced itself, by the fingerprint of how it is reached."""
        statement = "SELECT era FROM eras WHERE connection = ?"
        row = db.execute(statement, (connection,)).fetchone()
        try:
            era = json.loads(row[0]) if row else None
        except ValueError:
            return None  # it is damaged; the next connection replaces it
        return era if isinstance(era, dict) else None

    @writes
    def save_era(self, db: Connection, connection: str, era: JSONObject | None) -> None:
        """Replace it; None drops it."""
        if era is None:
            db.execute("DELETE FROM eras WHERE connection = ?", (connection,))
            return
        db.execute(
            """
            INSERT INTO eras (connection, era) VALUES (?, ?)
            ON CONFLICT (connection) DO UPDATE
            SET era = excluded.era WHERE eras.era <> excluded.era
            """,
            (connection, json.dumps(era)),
        )
        db.execute("DELETE FROM eras WHERE id <= (SELECT max(id) FROM eras) - ?", (ERAS_KEPT,))

    # Requests that a language model wrote

    def save_requests(self, requests: Iterable[WrittenRequests]) -> None:
        """Add these, each in place of what was written for the same definition of a tool."""
        self._write_announced(partial(request_table.save, written=tuple(requests)))

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        """Drop what was written for tools (all with None), by server and its name of the tool.

        Returns for how many definitions something was written.
        """
        return self._write_announced(partial(request_table.forget, tools=tools))

    # Requests of agents

    @reads
    def agent_requests(self, db: Connection, scope: str) -> tuple[AgentRequest, ...]:
        """Return the requests of agents under a scope, the oldest first; a few hundred are kept."""
        statement = "SELECT request FROM agent_requests WHERE scope_key = ? ORDER BY number"
        rows = db.execute(statement, (key_of(scope),))
        return tuple(request for (text,) in rows if (request := _agent_request(text)))

    @writes
    def save_agent_request(self, db: Connection, scope: str, request: AgentRequest) -> None:
        """Add a request, or replace the one of its id."""
        _save_agent_request(db, scope, request)

    @writes
    def replace_agent_request(
        self, db: Connection, scope: str, stored: AgentRequest, new: AgentRequest
    ) -> bool:
        """Replace a request if it is still exactly as `stored`; returns whether it was."""
        statement = "SELECT request FROM agent_requests WHERE scope_key = ? AND id = ?"
        row = db.execute(statement + db.for_update, (key_of(scope), stored.id)).fetchone()
        is_same = row is not None and _agent_request(row[0]) == stored
        if is_same:
            _save_agent_request(db, scope, new)
        return is_same

    # Presets

    @reads
    def presets(self, db: Connection, scope: str) -> tuple[Preset, ...]:
        """Return the presets of a scope, in the order of their keys."""
        statement = """
            SELECT server, tool, name, arguments, updated_at FROM presets WHERE scope_key = ?
            """
        presets = []
        for *names, arguments, updated_at in db.execute(statement, (key_of(scope),)):
            server, tool, name = map(from_column, names)
            try:
                presets.append(Preset(server, tool, name, json.loads(arguments), updated_at))
            except (ValueError, RecursionError) as error:
                logger.warning("A preset cannot be read: %s", error)
        return tuple(sorted(presets, key=lambda preset: preset.key))

    @writes
    def save_preset(self, db: Connection, scope: str, preset: Preset) -> None:
        """Add a preset, or replace the one of its key."""
        db.execute(
            """
            INSERT INTO presets (key, scope_key, scope, server, tool, name, arguments, updated_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (key) DO UPDATE
            SET arguments = excluded.arguments, updated_at = excluded.updated_at
            """,
            (
                key_of(scope, *preset.key),
                key_of(scope),
                *map(to_column, (scope, *preset.key)),
                json.dumps(preset.arguments),  # in ASCII, which holds half a surrogate pair, too
                preset.updated_at,
            ),
        )

    @writes
    def delete_preset(self, db: Connection, scope: str, key: tuple[str, str, str]) -> bool:
        """Delete a preset by server, tool and name; returns whether there was one."""
        statement = "DELETE FROM presets WHERE key = ?"
        return db.execute(statement, (key_of(scope, *key),)).rowcount > 0

    # Leases

    @reads
    def lease(self, db: Connection, name: str) -> Lease | None:
        """Return a lease as it is now, free or held; None if it was never held."""
        statement = "SELECT holder, fence FROM leases WHERE key = ?"
        row = db.execute(statement, (key_of(name),)).fetchone()
        return Lease(name, from_column(row[0]), row[1]) if row else None

    @writes
    def acquire_lease(
        self, db: Connection, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        """Take a lease that is free, or that is still exactly `instead_of`; None if it is neither.

        Of processes that try at once one gets it, with the next fence.
        """
        # One statement, so that of two that try at once one waits, and then finds it taken.
        predecessor = instead_of or Lease(name, "", -1)
        row = db.execute(
            """
            INSERT INTO leases (key, name, holder, fence, renewals) VALUES (?, ?, ?, 1, 0)
            ON CONFLICT (key) DO UPDATE
            SET holder = excluded.holder, fence = leases.fence + 1
            WHERE leases.holder = ''
                OR (leases.holder = ? AND leases.fence = ?)
            RETURNING fence
            """,
            (
                key_of(name), to_column(name), to_column(holder),
                to_column(predecessor.holder), predecessor.fence,
            ),
        ).fetchone()  # fmt: skip
        return Lease(name, holder, row[0]) if row else None

    @writes
    def release_lease(self, db: Connection, lease: Lease) -> None:
        """Let others have it; no-op if it is not held any more."""
        statement = "UPDATE leases SET holder = '' WHERE key = ? AND holder = ? AND fence = ?"
        db.execute(statement, _held(lease))

    # Uses of tools

    @writes
    def count_use(self, db: Connection, scope: str, key: ToolKey, *, at: float) -> None:
        """Count one; `at` is Unix time in seconds. No-op for a server that is not saved.

        The counts of a server are dropped when the server is forgotten.
        """
        statement = """
            SELECT servers.id FROM servers JOIN scopes ON scopes.id = servers.scope
            WHERE scopes.key = ? AND servers.key = ?
            """
        keys = key_of(scope), key_of(key.server)
        server = db.execute(statement + db.for_update, keys).fetchone()
        if server is None:
            return
        statement = "SELECT count, at FROM uses WHERE server = ? AND key = ?"
        row = db.execute(statement, (*server, key_of(key.tool))).fetchone()
        use = UseCount(*(row or (0.0, at))).incremented(at)
        statement = """
            INSERT INTO uses (server, key, tool, count, at) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (server, key) DO UPDATE SET count = excluded.count, at = excluded.at
            """
        values = *server, key_of(key.tool), to_column(key.tool), use.count, use.at
        db.execute(statement, values)

    # Vectors

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """The vectors that a model gave to texts, by the digests of these; some may be missing."""
        stored: dict[bytes, bytes] = {}
        for some in _some(digests):
            stored |= self.read(partial(vector_table.vectors, model=model, digests=some))
        return stored

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Add vectors, by the digests of their texts, for a scope's use.

        A text has one vector under a model: a newer one replaces an older.
        """
        for some in _some(vectors):
            new = {digest: vectors[digest] for digest in some}
            self.write(partial(vector_table.save, scope=scope, model=model, new=new))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        """Note that a scope uses these; to be noted again each day.

        Vectors whose use was not noted for long are dropped: see `tables.vector_table`. Returns how
        many.
        """
        dropped = 0
        if not self.write(vector_table.is_settled):
            dropped = self._drop_unused_vectors()
        for some in _some(digests):
            self.write(partial(vector_table.use, scope=scope, model=model, digests=some))
        return dropped

    def _drop_unused_vectors(self) -> int:
        """Drop them a part at a time, so that a call after an interrupted one goes on."""
        dropped = 0
        last: int | None = 0
        while last is not None:
            drop = partial(vector_table.drop_unused, after=last, most=_VECTORS_AT_ONCE)
            gone, last = self.write(drop)
            dropped += gone
        self.write(vector_table.settle)
        return dropped

    def vector_count(self, scope: str) -> int:
        """How many vectors a scope uses, or has used of late, of all models."""
        return self.read(partial(vector_table.count, scope=scope))

    # Webhooks

    @reads
    def webhook_states(self, db: Connection, scope: str) -> tuple[WebhookState, ...]:
        """Return the states of the webhooks in the saved settings, in the order of their names."""
        return tuple(webhook_table.states(db, scope))

    @reads
    def due_webhooks(self, db: Connection, scope: str) -> frozenset[str]:
        """Return the webhooks that have a delivery to be claimed now."""
        return frozenset(webhook_table.due(db, scope))

    @writes
    def claim_deliveries(
        self, db: Connection, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        """Claim deliveries for `lease` seconds, the longest due first.

        No other process gets them until then; afterwards any may send them once more.
        """
        return tuple(webhook_table.claim(db, scope, webhook, limit, lease))

    @writes
    def finish_delivery(self, db: Connection, delivery: Delivery) -> bool:
        """Note that it was accepted; False if another process has claimed it since."""
        return webhook_table.finish(db, delivery)

    @writes
    def fail_delivery(
        self, db: Connection, delivery: Delivery, reason: str, *, retry_in: float | None
    ) -> bool:
        """Note a failure, tried again in `retry_in` seconds, or dead with None; as above."""
        return webhook_table.fail(db, delivery, reason, retry_in)

    @writes
    def disable_webhook(
        self, db: Connection, scope: str, webhook: str, reason: str, *, address: str
    ) -> int:
        """Store nothing more for a webhook, until its address is another one or it is retried.

        Nothing happens if that is not the address (`webhook_rows.address_of`) to which was sent.
        Its pending deliveries are dead; returns how many.
        """
        return webhook_table.disable(db, scope, webhook, reason, address)

    @writes
    def retry_deliveries(
        self, db: Connection, scope: str, webhooks: Collection[str] | None = None
    ) -> int:
        """Have dead deliveries sent now, as if they were new; those of all webhooks with None.

        What was disabled is enabled. Returns how many deliveries it concerns.
        """
        return webhook_table.retry(db, scope, webhooks)


def event_writer(connection: Connection, scope: str) -> NoEvents:
    """Return the writer of a scope's events in this transaction; a no-op without a webhook."""
    rows = webhook_table.rows(connection, scope)
    if not any(row.is_active for row in rows):
        return NoEvents()
    # Most registries have no webhook, and this is on the path of every start.
    from discovery_engine.store.webhook_writer import WebhookWriter  # noqa: PLC0415

    return WebhookWriter(connection, scope, rows)


def _agent_request(text: str) -> AgentRequest | None:
    try:
        return msgspec.json.decode(from_column(text), type=AgentRequest)
    except (msgspec.MsgspecError, ValueError) as error:
        logger.warning("A request of an agent cannot be read: %s", error)
        return None


def _save_agent_request(connection: Connection, scope: str, request: AgentRequest) -> None:
    text = to_column(msgspec.json.encode(request).decode())
    connection.execute(
        """
        INSERT INTO agent_requests (scope_key, scope, id, request) VALUES (?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET request = excluded.request
        """,
        (key_of(scope), to_column(scope), request.id, text),
    )
    connection.execute(
        """
        DELETE FROM agent_requests WHERE scope_key = ? AND number <= (
            SELECT number FROM agent_requests WHERE scope_key = ?
            ORDER BY number DESC LIMIT 1 OFFSET ?
        )
        """,
        (key_of(scope), key_of(scope), REQUESTS_KEPT),
    )


def _held(lease: Lease) -> tuple[object, ...]:
    return key_of(lease.name), to_column(lease.holder), lease.fence


def _some(digests: Iterable[bytes]) -> Iterator[list[bytes]]:
    """In one order on all gateways, so that two that save the same do not block each other."""
    return batches(sorted(digests), lambda _: 1, most=_VECTORS_AT_ONCE)
