"""The store that tools are found in by their vectors, in a PostgreSQL database with pgvector."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from discovery_engine.registry.postgres import search_vector_queries
from discovery_engine.registry.postgres.timed_connection import SET_PATH

if TYPE_CHECKING:
    from psycopg.abc import Params
    from psycopg.rows import TupleRow

    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.postgres.timed_connection import TimedConnection
    from discovery_engine.search.database.document_place import DocumentPlace
    from discovery_engine.search.database.vector_store import (
        FoundVector,
        StoredVector,
        VectorSpace,
    )
    from discovery_engine.search.embedders import Vector

logger = logging.getLogger(__name__)

LEAST_INDEXED = 10_000
"""Vectors; fewer are compared in some 10 ms, and exactly."""
_INDEX = "search_vectors_of_space_"
# `m` and `ef_construction`: twice the work of the defaults, for a recall of 0.98 among a million.
_LINKS, _WIDTH = 16, 128


class PostgresVectorSearch:
    """`search.database.vector_store` has its contract."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def open_space(self, index: int, model: str, dimensions: int) -> VectorSpace | None:
        return self._database.write(
            lambda db: search_vector_queries.open_space(db, index, model, dimensions)
        )

    def missing(self, space: VectorSpace) -> frozenset[int]:
        return self._database.read(lambda db: search_vector_queries.missing(db, space))

    def save(self, space: VectorSpace, vectors: Mapping[int, Sequence[StoredVector]]) -> None:
        self._database.write(lambda db: search_vector_queries.save(db, space, vectors))

    def nearest(
        self,
        space: VectorSpace,
        probes: Sequence[tuple[Vector, int]],
        servers: Collection[int] | None = None,
    ) -> list[FoundVector]:
        return self._database.read(
            lambda db: search_vector_queries.nearest(db, space, probes, servers)
        )

    def at(self, space: VectorSpace, places: Collection[DocumentPlace]) -> list[FoundVector]:
        return self._database.read(lambda db: search_vector_queries.at(db, space, places))

    def finish(self, space: VectorSpace) -> None:
        # While an index is built, gateways go on searching and writing.
        self._database.run_alone(lambda connection: _finish(connection, space))


def _finish(connection: TimedConnection, space: VectorSpace) -> None:
    _drop_unused(connection)
    name = f"{_INDEX}{space.number}"
    query = "SELECT FROM discovery.search_vectors WHERE space = %s OFFSET %s LIMIT 1"
    if not _found(connection, query, (space.number, LEAST_INDEXED)):
        return
    while (state := _state(connection, name)) == "building":  # by another gateway
        connection.execute("SELECT pg_catalog.pg_sleep(1)")
    if state == "valid":
        return
    if state == "invalid":  # left by a process that ended
        connection.execute(_DROP.format(sql.Identifier("discovery", name)))
    logger.info("The vectors of tools are being indexed in the database")
    connection.execute(_create(space))


def _state(connection: TimedConnection, name: str) -> str:
    query = """
        SELECT CASE WHEN indisvalid THEN 'valid'
            WHEN EXISTS (
                SELECT FROM pg_stat_progress_create_index WHERE index_relid = indexrelid
            ) THEN 'building' ELSE 'invalid' END
        FROM pg_index WHERE indexrelid = to_regclass(%s)
        """
    found = _found(connection, query, (f"discovery.{name}",))
    return str(found[0][0]) if found else ""


def _drop_unused(connection: TimedConnection) -> None:
    """Drop the indexes of spaces that are no more."""
    query = """
        SELECT relname FROM pg_class
        WHERE relnamespace = 'discovery'::regnamespace AND relkind = 'i' AND relname ~ %s
        AND substr(relname, %s)::int NOT IN (SELECT id FROM discovery.search_spaces)
        """
    parameters = f"^{_INDEX}[0-9]+$", len(_INDEX) + 1
    for (name,) in _found(connection, query, parameters):
        connection.execute(_DROP.format(sql.Identifier("discovery", name)))


def _found(connection: TimedConnection, query: str, parameters: Params) -> list[TupleRow]:
    """What a query finds, in a transaction of its own, for which alone a path can be set."""
    with connection.transaction():
        connection.execute(SET_PATH)
        return connection.execute(query, parameters).fetchall()


def _create(space: VectorSpace) -> sql.Composed:
    return sql.SQL(
        """
        CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON discovery.search_vectors
        USING hnsw ((vector::{schema}.halfvec({size})) {schema}.halfvec_ip_ops)
        WITH (m = {links}, ef_construction = {width}) WHERE space = {space}
        """
    ).format(
        name=sql.Identifier(f"{_INDEX}{space.number}"),
        schema=sql.SQL(space.schema),
        size=sql.Literal(space.dimensions),
        links=sql.Literal(_LINKS),
        width=sql.Literal(_WIDTH),
        space=sql.Literal(space.number),
    )


_DROP = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}")
