"""The part of a registry that a command needs to answer from it, without an engine.

It is a class of its own because most commands need no more: what only engines, workers and
webhooks need of the registry takes them a twentieth of their time to load.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine.config.files.location import decision_scope
from discovery_engine.search.usage import UseCount
from discovery_engine.store.statements import Transactions, reads
from discovery_engine.store.stored_text import from_column, key_of
from discovery_engine.store.tables import decision_table, request_table, snapshot_table
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.search.examples.book import WrittenRequests
    from discovery_engine.store.availability import RegistryHealth
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.store.statements import Connection


class StoredReader(Transactions):
    @property
    def health(self) -> RegistryHealth | None:
        """The health of the registry; None if it is in this process, or a file of this machine."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Further calls raise; closing again does nothing."""

    def load_index(self, scope: str) -> bytes | None:
        """The search index that was saved last; it may be of an older snapshot.

        An index is read with `marshal`, which is not safe for bytes that another user could have
        written. So it never leaves a private file of this user on this machine: None where other
        users may write, or could have written, to it.
        """

    def save_index(self, scope: str, data: bytes) -> None:
        """Replace it, unless others may write to the file; no-op for a scope without a snapshot."""

    def load(self, scope: str) -> Snapshot | None:
        """The last snapshot of a scope; None if there is none."""
        loaded = self.read(lambda db: snapshot_table.load(db, scope))
        return loaded[0].read(scope) if loaded else None

    @reads
    def lost_at(self, db: Connection, scope: str) -> float | None:
        """Unix time in seconds at which a loss of decisions was noticed.

        None if none was lost, or the owner has acknowledged it.
        """
        return decision_table.lost_at(db, scope)

    @reads
    def servers_mark(self, db: Connection, scope: str) -> str:
        """Another text after every change of servers, switches or rules; empty if none was."""
        return decision_table.mark(db, scope)

    @reads
    def uses(self, db: Connection, scope: str) -> Mapping[ToolKey, UseCount]:
        """Return how often tools of the scope were used after a search had found them."""
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
        """Another text whenever something else is written; empty if nothing is."""
        return request_table.mark(db)

    @reads
    def written_requests(self, db: Connection) -> tuple[WrittenRequests, ...]:
        """All that is written."""
        return request_table.load(db)


def registration_mark(store: StoredReader, settings: Settings) -> str:
    """The mark of what is registered and switched for a configuration; empty if nothing ever was.

    The settings are current as long as it is the one that they have.
    """
    return store.servers_mark(decision_scope(settings))
