"""The part of a registry that a command needs to answer from it, without an engine.

It is a class of its own because most commands need no more: what only engines, workers and
webhooks need of the registry takes them a twentieth of their time to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine.search.usage import UseCount
from discovery_engine.store.stored_text import from_column, key_of
from discovery_engine.store.tables import decision_table, request_table, snapshot_table
from discovery_engine.store.transactions import Transactions, reads
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

if TYPE_CHECKING:
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.store.statements import Connection


class StoredReader(Transactions):
    def load(self, scope: str) -> Snapshot | None:
        loaded = self.read(lambda db: snapshot_table.load(db, scope))
        return loaded[0].read(scope) if loaded else None

    @reads
    def lost_at(self, db: Connection, scope: str) -> float | None:
        return decision_table.lost_at(db, scope)

    @reads
    def servers_mark(self, db: Connection, scope: str) -> str:
        return decision_table.mark(db, scope)

    @reads
    def uses(self, db: Connection, scope: str) -> Mapping[ToolKey, UseCount]:
        statement = """
            SELECT servers.name, tool, count, at FROM uses
            JOIN servers ON servers.id = uses.server
            JOIN scopes ON scopes.id = servers.scope WHERE scopes.key = ?
            """
        return {
            ToolKey(ServerName(from_column(server)), ToolName(from_column(tool))): UseCount(
                count, at
            )
            for server, tool, count, at in db.execute(statement, (key_of(scope),))
            if isinstance(count, float) and isinstance(at, float)  # else the row is damaged
        }

    @reads
    def requests_mark(self, db: Connection) -> str:
        return request_table.mark(db)

    @reads
    def written_requests(self, db: Connection) -> tuple[WrittenRequests, ...]:
        return request_table.load(db)
