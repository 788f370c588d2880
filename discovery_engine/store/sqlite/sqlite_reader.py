"""The part of a registry in SQLite that a command needs to answer from it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from discovery_engine.store.sqlite.database import (
    Database,
    drop_indexes,
    load_index,
    save_index,
)
from discovery_engine.store.stored_reader import StoredReader

if TYPE_CHECKING:
    from discovery_engine.store.sqlite.file_connection import FileConnection

logger = logging.getLogger(__name__)

T = TypeVar("T")


class SqliteReader(StoredReader):
    """The part of `SqliteRegistry` that such commands open; closing it closes the file.

    It writes nothing but the search index, which is made of what it reads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def load_index(self, scope: str) -> bytes | None:
        index = self._database.read(lambda db: load_index(db, scope))
        if index is None or self._database.is_private():
            return index
        logger.info(
            "Others may write to the registry %s, or replace it, so its search index is not read"
            " and built again: `chmod go-w` the file and the folders above it",
            self._database.path,
        )
        self._database.write(drop_indexes)
        return None

    def save_index(self, scope: str, data: bytes) -> None:
        if self._database.is_private():
            self._database.write(lambda db: save_index(db, scope, data))

    def close(self) -> None:
        self._database.close()

    def read(self, work: Callable[[FileConnection], T]) -> T:
        return self._database.read(work)

    def write(self, work: Callable[[FileConnection], T]) -> T:
        return self._database.write(work)
