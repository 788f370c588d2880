"""Records of a registry that need nothing but transactions, in SQLite files and PostgreSQL."""

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
    """A request of an agent for an action that only the owner may take."""

    id: str
    action: AgentAction
    name: str = ""
    """The name of a server or of a marketplace entry; empty for `sync`."""
    arguments: JSONObject = field(default_factory=dict)
    """All other arguments of the agent; untrusted text."""
    client: str = ""
    """The client that made the request, if known."""
    created_at: float = 0.0
    """Unix time in seconds."""
    state: RequestState = "waiting"
    decided_at: float | None = None
    outcome: str = ""
    """The result, for the agent: the name of a server, or the reason why there is none."""

    def asks_the_same(self, other: AgentRequest) -> bool:
        """Return whether both have the same action, name and arguments."""
        mine = self.action, self.name, self.arguments
        return mine == (other.action, other.name, other.arguments)


class Preset(Struct, frozen=True):
    """Arguments of a tool that its owner has saved under a name for later calls."""

    server: str
    tool: str
    name: str
    arguments: JSONObject = field(default_factory=dict)
    updated_at: float = 0.0
    """Unix time in seconds."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key in its scope: server, tool and name. Presets are sorted by it."""
        return self.server, self.tool, self.name


class Lease(Struct, frozen=True):
    """A lock that one process at a time holds, among all that share a registry.

    It stores no time, because clocks jump and machines sleep. A process that waits for it measures
    by its own clock for how long the holder has not changed, and takes the lease after too long.
    """

    name: str
    holder: str
    """The unique name of the process that holds it; empty once it is released."""
    fence: int
    """The fencing token, which grows by 1 with each acquisition; the highest one is valid."""

    @property
    def is_free(self) -> bool:
        return not self.holder


logger = logging.getLogger(__name__)

ERAS_KEPT = 100_000  # connections; the oldest are dropped first
REQUESTS_KEPT = 500  # requests of agents in a scope; the oldest are dropped first
_VECTORS_AT_ONCE = 2_000  # vectors in one transaction: 200,000 would exceed its time limit


class StoredRecords(StoredReader):
    """The part of a registry that needs nothing but transactions."""

    _has_webhooks = True
    """True if events for webhooks are stored; False in a copy of another registry."""

    def _events(self, connection: Connection, scope: str) -> NoEvents:
        """Return the writer of webhook events for the present transaction."""
        return event_writer(connection, scope) if self._has_webhooks else NoEvents()

    # Eras: the transport and the handshake that last worked with each server

    @reads
    def load_era(self, db: Connection, connection: str) -> JSONObject | None:
        """Return the saved era of a server, by the fingerprint of its connection; None if none."""
        statement = "SELECT era FROM eras WHERE connection = ?"
        row = db.execute(statement, (connection,)).fetchone()
        try:
            era = json.loads(row[0]) if row else None
        except ValueError:
            return None  # damaged; the next connection replaces it
        return era if isinstance(era, dict) else None

    @writes
    def save_era(self, db: Connection, connection: str, era: JSONObject | None) -> None:
        """Replace the era of a server; None deletes it."""
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
        """Add requests, each replacing those for the same definition of a tool."""
        self._write_announced(partial(request_table.save, written=tuple(requests)))

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        """Delete the written requests for tools, or all of them if `tools` is None.

        A tool is a pair of the server's name and the server's own name for the tool. Return the
        number of definitions whose requests were deleted.
        """
        return self._write_announced(partial(request_table.forget, tools=tools))

    # Requests of agents

    @reads
    def agent_requests(self, db: Connection, scope: str) -> tuple[AgentRequest, ...]:
        """Return the requests of agents in a scope, the oldest first; at most `REQUESTS_KEPT`."""
        statement = "SELECT request FROM agent_requests WHERE scope_key = ? ORDER BY number"
        rows = db.execute(statement, (key_of(scope),))
        return tuple(request for (text,) in rows if (request := _agent_request(text)))

    @writes
    def save_agent_request(self, db: Connection, scope: str, request: AgentRequest) -> None:
        """Add a request, or replace the one with its id."""
        _save_agent_request(db, scope, request)

    @writes
    def replace_agent_request(
        self, db: Connection, scope: str, stored: AgentRequest, new: AgentRequest
    ) -> bool:
        """Replace a request if it still equals `stored`; return whether it was replaced."""
        statement = "SELECT request FROM agent_requests WHERE scope_key = ? AND id = ?"
        row = db.execute(statement + db.for_update, (key_of(scope), stored.id)).fetchone()
        is_same = row is not None and _agent_request(row[0]) == stored
        if is_same:
            _save_agent_request(db, scope, new)
        return is_same

    # Presets

    @reads
    def presets(self, db: Connection, scope: str) -> tuple[Preset, ...]:
        """Return the presets of a scope, sorted by key."""
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
        """Add a preset, or replace the one with its key."""
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
                json.dumps(preset.arguments),  # ASCII, which can also encode a lone surrogate
                preset.updated_at,
            ),
        )

    @writes
    def delete_preset(self, db: Connection, scope: str, key: tuple[str, str, str]) -> bool:
        """Delete a preset by server, tool and name; return whether it existed."""
        statement = "DELETE FROM presets WHERE key = ?"
        return db.execute(statement, (key_of(scope, *key),)).rowcount > 0

    # Leases

    @reads
    def lease(self, db: Connection, name: str) -> Lease | None:
        """Return a lease, free or held; None if it was never acquired."""
        statement = "SELECT holder, fence FROM leases WHERE key = ?"
        row = db.execute(statement, (key_of(name),)).fetchone()
        return Lease(name, from_column(row[0]), row[1]) if row else None

    @writes
    def acquire_lease(
        self, db: Connection, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        """Acquire a lease that is free or still equals `instead_of`; return None if it is neither.

        If several processes try at the same time, one of them gets it, with the next fence.
        """
        # One statement, so that one of two concurrent processes waits, and then finds it taken.
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
        """Release a lease; a no-op if this holder has lost it."""
        statement = "UPDATE leases SET holder = '' WHERE key = ? AND holder = ? AND fence = ?"
        db.execute(statement, _held(lease))

    # Uses of tools

    @writes
    def count_use(self, db: Connection, scope: str, key: ToolKey, *, at: float) -> None:
        """Count one use of a tool at a Unix time in seconds; a no-op if its server is not saved.

        `StoredCatalog.forget` deletes the counts of a server.
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
        """Return the stored vectors of a model by the digests of the texts; some may be missing."""
        stored: dict[bytes, bytes] = {}
        for some in _some(digests):
            stored |= self.read(partial(vector_table.vectors, model=model, digests=some))
        return stored

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Save vectors of a model, by the digests of their texts, as used by a scope.

        A newer vector of the same text replaces the older one.
        """
        for some in _some(vectors):
            new = {digest: vectors[digest] for digest in some}
            self.write(partial(vector_table.save, scope=scope, model=model, new=new))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        """Record that a scope uses these vectors; to be repeated each day.

        The first call of a period deletes unused vectors, see `tables.vector_table`. Return how
        many were deleted.
        """
        dropped = 0
        if not self.write(vector_table.is_settled):
            dropped = self._drop_unused_vectors()
        for some in _some(digests):
            self.write(partial(vector_table.use, scope=scope, model=model, digests=some))
        return dropped

    def _drop_unused_vectors(self) -> int:
        """Delete unused vectors in several transactions; return how many were deleted."""
        dropped = 0
        last: int | None = 0
        while last is not None:
            drop = partial(vector_table.drop_unused, after=last, most=_VECTORS_AT_ONCE)
            gone, last = self.write(drop)
            dropped += gone
        self.write(vector_table.settle)
        return dropped

    def vector_count(self, scope: str) -> int:
        """Return how many vectors of all models a scope uses, or has lately used."""
        return self.read(partial(vector_table.count, scope=scope))

    # Webhooks

    @reads
    def webhook_states(self, db: Connection, scope: str) -> tuple[WebhookState, ...]:
        """Return the states of the webhooks in the saved settings, sorted by name."""
        return tuple(webhook_table.states(db, scope))

    @reads
    def due_webhooks(self, db: Connection, scope: str) -> frozenset[str]:
        """Return the names of the webhooks with a delivery that can be claimed now."""
        return frozenset(webhook_table.due(db, scope))

    @writes
    def claim_deliveries(
        self, db: Connection, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        """Claim up to `limit` deliveries of a webhook for `lease` seconds, the longest due first.

        No other process gets them before the lease expires; afterwards any may send them again.
        """
        return tuple(webhook_table.claim(db, scope, webhook, limit, lease))

    @writes
    def finish_delivery(self, db: Connection, delivery: Delivery) -> bool:
        """Record that a delivery was accepted; return False if it was claimed again meanwhile."""
        return webhook_table.finish(db, delivery)

    @writes
    def fail_delivery(
        self, db: Connection, delivery: Delivery, reason: str, *, retry_in: float | None
    ) -> bool:
        """Record a failed delivery; return False if it was claimed again meanwhile.

        It is due again in `retry_in` seconds; with None it is dead.
        """
        return webhook_table.fail(db, delivery, reason, retry_in)

    @writes
    def disable_webhook(
        self, db: Connection, scope: str, webhook: str, reason: str, *, address: str
    ) -> int:
        """Disable a webhook until its URL changes or it is retried; its pending deliveries die.

        It is a no-op if `address` (`webhook_table.address_of`) is not that of its present URL.
        Return the number of deliveries that died.
        """
        return webhook_table.disable(db, scope, webhook, reason, address)

    @writes
    def retry_deliveries(
        self, db: Connection, scope: str, webhooks: Collection[str] | None = None
    ) -> int:
        """Make dead deliveries due now, as if they were new; of all webhooks if None.

        Disabled webhooks are enabled. Return the number of deliveries.
        """
        return webhook_table.retry(db, scope, webhooks)


def event_writer(connection: Connection, scope: str) -> NoEvents:
    """Return the writer of a scope's events in this transaction; `NoEvents` without a webhook."""
    rows = webhook_table.rows(connection, scope)
    if not any(row.is_active for row in rows):
        return NoEvents()
    # Most registries have no webhook, and every start calls this.
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
    """Split digests into sorted batches; one order on all gateways prevents deadlocks."""
    return batches(sorted(digests), lambda _: 1, most=_VECTORS_AT_ONCE)
