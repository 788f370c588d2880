"""The part of a registry in SQLite that a command needs to answer from it, without an engine.

It is a class of its own because most commands need no more: what only engines, workers and
webhooks need of the registry takes them a twentieth of their time to load.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine.registry.sqlite import (
    decision_tables,
    index_table,
    server_tables,
)
from discovery_engine.registry.sqlite.database import Database
from discovery_engine.registry.tables import request_table, snapshot_table, usage_table

if TYPE_CHECKING:
    from discovery_engine.registry.protocols import RegistryHealth
    from discovery_engine.registry.snapshot import Snapshot
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.search.usage import UseCount
    from discovery_engine.tools.model import ToolKey

logger = logging.getLogger(__name__)


class SqliteReader:
    """The part of `SqliteRegistry` that such commands open; closing it closes the file.

    It writes nothing but the search index, which is made of what it reads.
    """

    health: RegistryHealth | None = None

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, scope: str) -> Snapshot | None:
        loaded = self._database.read(lambda db: snapshot_table.load(db, scope))
        return loaded[0].read(scope) if loaded else None

    def lost_at(self, scope: str) -> float | None:
        return self._database.read(lambda db: decision_tables.lost_at(db, scope))

    def servers_mark(self, scope: str) -> str:
        return self._database.read(lambda db: server_tables.mark(db, scope))

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        return self._database.read(lambda db: usage_table.uses(db, scope))

    def requests_mark(self) -> str:
        return self._database.read(request_table.mark)

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        return self._database.read(request_table.load)

    @property
    def indexes(self) -> SqliteReader:
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

    def close(self) -> None:
        self._database.close()
