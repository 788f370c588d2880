"""Vectors of tools in PostgreSQL; `search.database.vector_store` has their contract."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from psycopg import errors, sql
from psycopg.types.numeric import Int4, Int8

from discovery_engine.registry.postgres.halfvec import as_text, of_binary, to_binary
from discovery_engine.registry.postgres.search_queries import NOTED_EACH, note_use
from discovery_engine.registry.postgres.storable_text import key_of, to_column
from discovery_engine.registry.postgres.timed_connection import SET_PATH
from discovery_engine.search.database.document_place import DocumentPlace
from discovery_engine.search.database.vector_store import (
    MOST_DIMENSIONS,
    FoundVector,
    NoVectorSearchError,
    StoredVector,
    VectorSpace,
)

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.search.embedders import Vector

_OLDEST = (0, 8)  # the first version whose index finds more and more, until enough are visible
_LOCK = 0x646973636F766563  # of making the table: "discovec"
_KEPT_FOR = timedelta(days=7)  # the space of a model that no gateway uses
_MOST_LOOKED_AT = 1_000  # at once in the index: the most of pgvector


def open_space(
    connection: Connection, index: int, model: str, dimensions: int
) -> VectorSpace | None:
    if dimensions > MOST_DIMENSIONS:
        raise NoVectorSearchError(
            f"the model gives {dimensions:,} numbers, and an index of pgvector has at most "
            f"{MOST_DIMENSIONS:,}: `search.embeddings.dimensions` asks some models for fewer"
        )
    schema = _prepared(connection)
    note_use(connection, index)
    parameters = index, key_of(model), to_column(model), dimensions
    connection.execute(
        """
        INSERT INTO discovery.search_spaces (search_index, key, model, dimensions)
        SELECT id, %s, %s, %s FROM discovery.search_indexes WHERE id = %s
        ON CONFLICT (search_index, key, dimensions) DO UPDATE SET used_at = excluded.used_at
        WHERE search_spaces.used_at < excluded.used_at - %s
        """,
        (*parameters[1:], index, NOTED_EACH),
    )
    query = """
        SELECT id FROM discovery.search_spaces
        WHERE search_index = %s AND key = %s AND dimensions = %s
        """
    row = connection.execute(query, (index, key_of(model), dimensions)).fetchone()
    if row is None:
        return None
    query = (
        "DELETE FROM discovery.search_spaces WHERE used_at < clock_timestamp() - %s AND id <> %s"
    )
    connection.execute(query, (_KEPT_FOR, row[0]))
    return VectorSpace(row[0], dimensions, schema)


def is_recent(version: str) -> bool:
    """Whether a version of pgvector is new enough."""
    return tuple(map(int, version.split(".")[:2])) >= _OLDEST


def missing(connection: Connection, space: VectorSpace) -> frozenset[int]:
    query = """
        SELECT search_servers.id FROM discovery.search_servers
        JOIN discovery.search_spaces USING (search_index)
        WHERE search_spaces.id = %s AND ended_at IS NULL AND NOT EXISTS (
            SELECT FROM discovery.search_vector_servers
            WHERE space = search_spaces.id AND server = search_servers.id
        )
        """
    return frozenset(row[0] for row in connection.execute(query, (space.number,)))


def save(
    connection: Connection, space: VectorSpace, vectors: Mapping[int, Sequence[StoredVector]]
) -> None:
    # What another gateway has saved meanwhile is the same; what was replaced is not wanted.
    query = """
        INSERT INTO discovery.search_vector_servers (space, server)
        SELECT search_spaces.id, search_servers.id FROM discovery.search_servers
        JOIN discovery.search_spaces USING (search_index)
        WHERE search_spaces.id = %s AND search_servers.id = ANY(%s) AND ended_at IS NULL
        ON CONFLICT DO NOTHING RETURNING server
        """
    rows = connection.execute(query, (space.number, sorted(vectors)))
    new = [row[0] for row in rows]
    columns = "(space, server, position, vector, text, requests)"
    command = f"COPY discovery.search_vectors {columns} FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(command) as copy:
        for number in new:
            for position, one in enumerate(vectors[number]):
                row = Int4(space.number), Int8(number), Int4(position), *to_binary(one)
                copy.write_row(row)


def nearest(
    connection: Connection,
    space: VectorSpace,
    probes: Sequence[tuple[Vector, int]],
    servers: Collection[int] | None,
) -> list[FoundVector]:
    most = max(most for _, most in probes)
    looked_at = min(most, _MOST_LOOKED_AT)
    # An index that stops early would hide what is visible; and no plan may sort all vectors.
    connection.execute(
        "SET LOCAL jit = off; SET LOCAL enable_sort = off; "
        f"SET LOCAL hnsw.ef_search = {looked_at}; SET LOCAL hnsw.iterative_scan = relaxed_order; "
        f"SET LOCAL hnsw.max_scan_tuples = {10 * most}; SET LOCAL hnsw.scan_mem_multiplier = 8"
    )
    query = _query(space, is_exact=servers is not None)
    found: list[FoundVector] = []
    for vector, wanted in probes:
        named = {} if servers is None else {"servers": [*servers]}
        parameters = {"probe": as_text(vector), "most": wanted, **named}
        found += _found(connection.execute(query, parameters, binary=True))
    return found


def at(
    connection: Connection, space: VectorSpace, places: Collection[DocumentPlace]
) -> list[FoundVector]:
    query = """
        SELECT server, position, vector, text, requests
        FROM unnest(%s::bigint[], %s::int[]) AS asked(server, position)
        JOIN discovery.search_vectors USING (server, position) WHERE space = %s
        """
    columns = [one.number for one in places], [one.position for one in places]
    return [*_found(connection.execute(query, (*columns, space.number), binary=True))]


def _query(space: VectorSpace, *, is_exact: bool) -> sql.Composed:
    # As an index has it; with a sum the order is not its own, so that few servers are compared
    # exactly.
    asked = sql.SQL(
        "(vector::{schema}.halfvec({size})) OPERATOR({schema}.<#>) %(probe)s::{schema}.halfvec"
    ).format(schema=sql.SQL(space.schema), size=sql.Literal(space.dimensions))
    return sql.SQL(
        """
        SELECT server, position, vector, text, requests FROM discovery.search_vectors
        WHERE space = {space} {only} ORDER BY {order} LIMIT %(most)s
        """
    ).format(
        space=sql.Literal(space.number),
        only=sql.SQL("AND server = ANY(%(servers)s)" if is_exact else ""),
        order=sql.SQL("({}) + 0").format(asked) if is_exact else asked,
    )


def _found(
    rows: Iterator[tuple[int, int, bytes, bytes | None, bytes | None]],
) -> Iterator[FoundVector]:
    for server, position, vector, text, requests in rows:
        place = DocumentPlace(server, position)
        own = of_binary(vector if text is None else text)
        yield FoundVector(place, StoredVector(own, requests and of_binary(requests)))


def _prepared(connection: Connection) -> str:
    """The schema of pgvector; the table of vectors is there afterwards.

    Raises:
        NoVectorSearchError: If there is no pgvector, or an older one.
    """
    found = _installed(connection)
    if found is None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        _create_extension(connection)
        found = _installed(connection)
    version, schema = found or ("", "")
    if not is_recent(version):
        raise NoVectorSearchError(
            f"pgvector {version} of the database is older than 0.8: as an administrator, "
            "`ALTER EXTENSION vector UPDATE`"
        )
    query = "SELECT to_regclass('discovery.search_vectors')"
    if connection.execute(query).fetchone() == (None,):
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(_TABLE.format(halfvec=sql.SQL(f"{schema}.halfvec")))
    return schema


def _installed(connection: Connection) -> tuple[str, str] | None:
    query = """
        SELECT extversion, quote_ident(nspname) FROM pg_extension
        JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
        """
    row = connection.execute(query).fetchone()
    return (str(row[0]), str(row[1])) if row else None


def _create_extension(connection: Connection) -> None:
    query = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
    if connection.execute(query).fetchone() is None:
        raise NoVectorSearchError("the database server has no pgvector: install it there")
    try:
        with connection.transaction():
            # It is installed where its administrator has other extensions, usually in `public`.
            connection.execute("SET LOCAL search_path = DEFAULT")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(SET_PATH)
    except (errors.InsufficientPrivilege, errors.UndefinedFile) as exc:
        raise NoVectorSearchError(
            "the role may not install pgvector: as an administrator of the database, "
            "`CREATE EXTENSION vector`"
        ) from exc


# `vector` is what is searched for: that of the text, or half its sum with that of the examples.
# Only then are both there by themselves.
_TABLE = sql.SQL(
    """
    CREATE TABLE IF NOT EXISTS discovery.search_vectors (
        space int NOT NULL,
        server bigint NOT NULL,
        position int NOT NULL,
        vector {halfvec} NOT NULL,
        text {halfvec},
        requests {halfvec},
        PRIMARY KEY (space, server, position),
        FOREIGN KEY (space, server) REFERENCES discovery.search_vector_servers ON DELETE CASCADE
    );
    ALTER TABLE discovery.search_vectors ENABLE ROW LEVEL SECURITY
    """
)
