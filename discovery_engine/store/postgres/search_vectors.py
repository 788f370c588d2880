"""Vectors of tools that stay in PostgreSQL with pgvector, which compares them with a query's."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from psycopg import errors, sql
from psycopg.types.numeric import Int4, Int8

from discovery_engine.errors import RegistryError
from discovery_engine.search.vectors import Similarities, Vectors
from discovery_engine.store.postgres.search_documents import Place
from discovery_engine.store.postgres.timed_connection import SET_PATH
from discovery_engine.store.search_database import NoVectorSearchError
from discovery_engine.store.stored_text import key_of, to_column

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.search.embedders import Vector
    from discovery_engine.store.postgres.database_searcher import DatabaseIndex
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.tools.model import ServerName, Tool, ToolKey

logger = logging.getLogger(__name__)

LEAST_INDEXED = 10_000
"""Vectors; fewer are compared in some 10 ms, and exactly."""
_AVERAGED = 20_000  # of which the mean is taken: that of all within 0.002
_ROUNDS = (240, 20_000)  # tools that are looked at, until enough of them may be shown
_ELEMENT_BYTES = 800  # that an index takes of memory for each vector, beside its numbers
_MOST_MEMORY = 1 << 20  # KiB
_FURTHEST = 10  # tools that are looked at for the lowest similarity
_MOST_DIMENSIONS = 4_000  # of an index of pgvector for vectors of half precision
_OLDEST = (0, 8)  # the first version whose index finds more and more, until enough are visible
_LOCK = 0x646973636F766563  # of making the table: "discovec"
_HEAD = struct.Struct(">HH")  # of a vector on the wire: how many numbers, and nothing


class VectorSpace(Struct, frozen=True):
    """The vectors that one model gave to the tools of one index in a database.

    All raises `RegistryError` if the database does not answer.
    """

    database: SearchDatabase
    number: int
    dimensions: int
    schema: str
    """The schema of pgvector, as it is written in a query."""

    def missing(self) -> frozenset[int]:
        """The numbers of the servers' documents without vectors."""
        query = """
            SELECT search_servers.id FROM discovery.search_servers
            JOIN discovery.search_spaces USING (search_index)
            WHERE search_spaces.id = %s AND ended_at IS NULL AND NOT EXISTS (
                SELECT FROM discovery.search_vector_servers
                WHERE space = search_spaces.id AND server = search_servers.id
            )
            """
        return self.database.read(
            lambda db: frozenset(number for (number,) in db.execute(query, (self.number,)))
        )

    def save(self, vectors: Mapping[int, Sequence[Sequence[bytes]]]) -> None:
        """Add vectors by the numbers of documents, in their order; several of a tool are averaged.

        Each is as `vectors.pack` made it.
        """
        # What another gateway has saved meanwhile is the same; what was replaced is not wanted.
        query = """
            INSERT INTO discovery.search_vector_servers (space, server)
            SELECT search_spaces.id, search_servers.id FROM discovery.search_servers
            JOIN discovery.search_spaces USING (search_index)
            WHERE search_spaces.id = %s AND search_servers.id = ANY(%s) AND ended_at IS NULL
            ON CONFLICT DO NOTHING RETURNING server
            """
        columns = "(space, server, position, vector)"
        command = f"COPY discovery.search_vectors {columns} FROM STDIN (FORMAT BINARY)"

        def work(db: Connection) -> None:
            added = db.execute(query, (self.number, sorted(vectors))).fetchall()
            with db.cursor() as cursor, cursor.copy(command) as copy:
                for (number,) in added:
                    for position, packed in enumerate(vectors[number]):
                        place = Int4(self.number), Int8(number), Int4(position)
                        copy.write_row((*place, _mean(packed)))

        self.database.write(work)

    def finish(self, count: int) -> Vector:
        """The mean of `count` vectors, after many were indexed: while gateways go on searching."""

        def work(db: Connection) -> Vector:
            _drop_useless(db)
            if count > LEAST_INDEXED:
                self._index(db, count)
            query = f"""
                SELECT {self.schema}.avg(vector)::text FROM discovery.search_vectors
                TABLESAMPLE SYSTEM ({min(100, 100 * _AVERAGED / max(count, 1))}) REPEATABLE (1)
                WHERE space = {self.number}
                """  # noqa: S608 - of numbers
            [mean] = db.execute(query.encode()).fetchone() or (None,)
            return json.loads(mean) if mean else [0.0] * self.dimensions

        return self.database.run_alone(work)

    def _index(self, db: Connection, count: int) -> None:
        """Build the index of `count` vectors, unless it is there; it sets what `db` may take."""
        # Twice the work of the defaults, for a recall of 0.98 among a million. Another gateway may
        # be building it: until it is there, all are compared.
        create = f"""
            CREATE INDEX CONCURRENTLY IF NOT EXISTS search_vectors_of_space_{self.number}
            ON discovery.search_vectors USING hnsw
            ((vector::{self.schema}.halfvec({self.dimensions})) {self.schema}.halfvec_ip_ops)
            WITH (m = 16, ef_construction = 128) WHERE space = {self.number}
            """.encode()
        # In the usual 64 MB are 43,000 vectors of 384 numbers; each further one is searched for on
        # disk.
        memory = min(count * (2 * self.dimensions + _ELEMENT_BYTES) >> 10, _MOST_MEMORY)
        db.execute(
            "SELECT set_config('maintenance_work_mem', greatest(%s, setting::bigint)::text, false)"
            " FROM pg_settings WHERE name = 'maintenance_work_mem'",
            (memory,),
        )
        try:
            db.execute(create)
        except errors.DiskFull:  # several processes share /dev/shm, where containers have 64 MB
            _drop_useless(db)
            db.execute("SET max_parallel_maintenance_workers = 0")
            db.execute(create)

    def nearest(
        self, probes: Sequence[Vector], most: int, servers: Collection[int] | None
    ) -> list[tuple[Place, list[float]]]:
        """For each probe about `most` tools, with their inner products with each; see `at`.

        With `servers` only of documents with these numbers, and then exactly.
        """
        # An index that stops early would hide what is visible; and no plan may sort all vectors.
        # As many at once as pgvector looks at.
        settings = (
            "SET LOCAL jit = off; SET LOCAL enable_sort = off; "
            f"SET LOCAL hnsw.ef_search = {min(most, 1_000)}; "
            "SET LOCAL hnsw.iterative_scan = relaxed_order; "
            f"SET LOCAL hnsw.max_scan_tuples = {10 * most}; SET LOCAL hnsw.scan_mem_multiplier = 8"
        )
        numbers = None if servers is None else ",".join(map(str, servers))
        only = "" if numbers is None else f"AND server = ANY('{{{numbers}}}')"
        order = f"(vector::{self.schema}.halfvec({self.dimensions})) OPERATOR({self.schema}.<#>)"
        # As an index has it; with a sum the order is not its own, and few are compared exactly.
        exactly = "" if numbers is None else "+ 0"

        def work(db: Connection) -> list[tuple[Place, list[float]]]:
            db.execute(settings.encode())
            return [
                hit
                for probe in map(self._literal, probes)
                for hit in self._products(
                    db,
                    probes,
                    f"FROM discovery.search_vectors WHERE space = {self.number} {only} "
                    f"ORDER BY ({order} {probe}) {exactly} LIMIT {most}",
                )
            ]

        return self.database.read(work)

    def at(
        self, probes: Sequence[Vector], places: Collection[Place]
    ) -> list[tuple[Place, list[float]]]:
        """The inner products of the tools' vectors with each probe: the cosines, or their means."""
        rest = f"""
            FROM unnest(%s::bigint[], %s::int[]) AS wanted(server, position)
            JOIN discovery.search_vectors USING (server, position) WHERE space = {self.number}
            """
        columns = [place.number for place in places], [place.position for place in places]
        return self.database.read(lambda db: self._products(db, probes, rest, columns))

    def _products(
        self, db: Connection, probes: Sequence[Vector], rest: str, parameters: Sequence[object] = ()
    ) -> list[tuple[Place, list[float]]]:
        operator = f"OPERATOR({self.schema}.<#>)"
        products = ", ".join(f"-(vector {operator} {self._literal(probe)})" for probe in probes)
        query = f"SELECT server, position, ARRAY[{products}] {rest}"
        rows = db.execute(query.encode(), parameters, binary=True)
        return [(Place(*place), values) for *place, values in rows]

    def _literal(self, vector: Vector) -> str:
        return f"'[{','.join(f'{number:.6g}' for number in vector)}]'::{self.schema}.halfvec"


def open_space(
    database: SearchDatabase, index: int, model: str, dimensions: int
) -> VectorSpace | None:
    """The space of a model, whose use is noted; None if there is no such index any more.

    Raises:
        NoVectorSearchError: If the database cannot compare such vectors.
        RegistryError: If it does not answer.
    """
    if dimensions > _MOST_DIMENSIONS:
        raise NoVectorSearchError(
            f"the model gives {dimensions:,} numbers, and an index of pgvector has at most "
            f"{_MOST_DIMENSIONS:,}: `search.embeddings.dimensions` asks some models for fewer"
        )

    def work(db: Connection) -> VectorSpace | None:
        schema = _prepared(db)
        query = """
            INSERT INTO discovery.search_spaces (search_index, key, model, dimensions)
            SELECT id, %s, %s, %s FROM discovery.search_indexes WHERE id = %s
            ON CONFLICT (search_index, key, dimensions)
            DO UPDATE SET used_at = excluded.used_at RETURNING id
            """
        row = db.execute(query, (key_of(model), to_column(model), dimensions, index)).fetchone()
        query = """
            DELETE FROM discovery.search_spaces WHERE used_at < now() - interval '7 days'
            """
        db.execute(query)
        return VectorSpace(database, row[0], dimensions, schema) if row else None

    return database.write(work)


class StoredVectors(Struct, frozen=True):
    """The vectors of one catalog's tools, as `ToolVectors`."""

    space: VectorSpace
    index: DatabaseIndex
    mean: Vector
    count: int
    is_static: bool

    def __len__(self) -> int:
        return self.count

    @property
    def dimensions(self) -> int:
        return self.space.dimensions

    def only(self, tools: Iterable[Tool]) -> Vectors:  # noqa: ARG002 - as `ToolVectors`
        """None of them: where tools are reserved, vectors are in memory, or soon will be."""
        return Vectors((), ())

    def compare(self, query: Sequence[Vector]) -> Similarities | None:
        """Compare like `ToolVectors.compare`; return None also if the database does not answer."""
        if not query or not self.count or any(len(vector) != self.dimensions for vector in query):
            return None
        try:
            return StoredSimilarities(self, query)
        except RegistryError as error:
            logger.info("Vectors cannot be compared in the database: %s", error.message)
            return None


class StoredSimilarities(Similarities):
    """The similarities to one query. Threads that share it may fetch something twice."""

    def __init__(self, vectors: StoredVectors, query: Sequence[Vector]) -> None:
        """Find the nearest and the furthest tools.

        Raises:
            RegistryError: If the database does not answer.
        """
        self._space, self._index, self._query = vectors.space, vectors.index, query
        self._cosines: dict[ToolKey, tuple[Tool, float]] = {}
        self._nearest: dict[tuple[int, frozenset[ServerName] | None], list[Tool]] = {}
        opposite = [-number for number in query[0]]
        ends = self._compared(vectors.space.nearest([opposite, *query], _FURTHEST, None), start=1)
        cosines = [self._cosines[tool.key][1] for tool in ends]
        mean = [sum(x * y for x, y in zip(vector, vectors.mean, strict=True)) for vector in query]
        super().__init__(
            best=max(cosines, default=0.0),
            mean=_whole(mean),
            lowest=min(cosines, default=0.0),
            count=len(vectors),
            is_static=vectors.is_static,
        )

    def cosine(self, tool: Tool) -> float | None:
        if tool.key not in self._cosines:
            self.prefetch([tool])
        candidate, cosine = self._cosines.get(tool.key, (None, None))
        return cosine if candidate == tool else None

    def nearest(
        self,
        most: int,
        accepts: Callable[[Tool], bool],
        servers: Callable[[], Collection[ServerName] | None] = lambda: None,
    ) -> list[Tool]:
        named = servers()
        few = None if named is None else frozenset(named)
        for looked_at in _ROUNDS:
            near = self._near(looked_at, few)
            accepted = [*islice(filter(accepts, near), most)]
            if len(accepted) == most or len(near) < looked_at:
                return accepted
        # Thousands of tools that are not accepted are nearer than these.
        everywhere = self._index.servers.items()
        few = frozenset(name for name, server in everywhere if any(map(accepts, server.tools)))
        return [*islice(filter(accepts, self._near(_ROUNDS[-1], few)), most)]

    def prefetch(self, tools: Iterable[Tool]) -> None:
        missing = (self._index.doc_id(tool) for tool in tools if tool.key not in self._cosines)
        try:
            places = [*filter(None, map(self._index.place, filter(None, missing)))]
            self._compared(self._space.at(self._query, places))
        except RegistryError as error:
            logger.info("Vectors cannot be compared in the database: %s", error.message)

    def _near(self, most: int, servers: frozenset[ServerName] | None) -> list[Tool]:
        """The nearest tools, the nearest first; none if the database does not answer."""
        if (near := self._nearest.get((most, servers))) is None:
            try:
                numbers = self._index.stored().numbers
                named = None if servers is None else [*filter(None, map(numbers.get, servers))]
                near = self._compared(self._space.nearest(self._query, most, named))
            except RegistryError as error:
                logger.info("Vectors cannot be compared in the database: %s", error.message)
                return []
            near.sort(key=lambda tool: (-self._cosines[tool.key][1], tool.server, tool.name))
            self._nearest[most, servers] = near
        return near

    def _compared(self, rows: Iterable[tuple[Place, list[float]]], *, start: int = 0) -> list[Tool]:
        """The tools of the catalog, once each, whose cosines are known from now on."""
        tools: dict[ToolKey, Tool] = {}
        for place, cosines in rows:
            if doc_id := self._index.doc_at(place):
                tool = self._index.entry(doc_id).tool
                tools[tool.key] = tool
                self._cosines[tool.key] = tool, _whole(cosines[start:])
        return [*tools.values()]


def _whole(cosines: Sequence[float]) -> float:
    """The similarity to a query, of those to its whole and its clauses."""
    whole, *clauses = cosines
    return (whole + max(clauses)) / 2 if clauses else whole


def _mean(packed: Sequence[bytes]) -> bytes:
    """The mean of vectors, as it is on the wire."""
    from discovery_engine.search.arrays import np  # noqa: PLC0415 - slow to load

    rows = np.frombuffer(b"".join(packed), "<f2").reshape(len(packed), -1)
    mean = rows.mean(axis=0, dtype="f4").astype(">f2")
    return _HEAD.pack(len(mean), 0) + bytes(mean.tobytes())


def is_recent(version: str) -> bool:
    """Return whether a version of pgvector is new enough."""
    return tuple(map(int, version.split(".")[:2])) >= _OLDEST


def _drop_useless(db: Connection) -> None:
    """Drop the indexes of models that are gone, and those that a process left when it ended."""
    query = """
        SELECT relname FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
        WHERE relnamespace = 'discovery'::regnamespace
        AND relname ~ '^search_vectors_of_space_[0-9]+$' AND (
            substr(relname, 25)::int NOT IN (SELECT id FROM discovery.search_spaces)
            OR NOT indisvalid AND NOT EXISTS (
                SELECT FROM pg_stat_progress_create_index WHERE index_relid = indexrelid
            )
        )
        """
    with db.transaction():
        db.execute(SET_PATH)
        names = [name for (name,) in db.execute(query)]
    for name in names:
        index = sql.Identifier("discovery", name)
        db.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(index))


def _prepared(db: Connection) -> str:
    """The schema of pgvector; the table of vectors is there afterwards.

    Raises:
        NoVectorSearchError: If there is no pgvector, or an older one.
    """
    installed = """
        SELECT extversion, quote_ident(nspname) FROM pg_extension
        JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
        """
    table = "SELECT to_regclass('discovery.search_vectors') IS NOT NULL"
    row = db.execute(installed).fetchone()
    if row is None or db.execute(table).fetchone() != (True,):
        db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    if row is None:
        _create_extension(db)
        row = db.execute(installed).fetchone()
    version, schema = row or ("", "")
    if not is_recent(version):
        raise NoVectorSearchError(
            f"pgvector {version} of the database is older than 0.8: as an administrator, "
            "`ALTER EXTENSION vector UPDATE`"
        )
    if db.execute(table).fetchone() != (True,):
        db.execute(_TABLE.format(halfvec=sql.SQL(f"{schema}.halfvec")))
    return str(schema)


def _create_extension(db: Connection) -> None:
    query = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
    if db.execute(query).fetchone() is None:
        raise NoVectorSearchError("the database server has no pgvector: install it there")
    try:
        with db.transaction():
            # It is installed where its administrator has other extensions, usually in `public`.
            db.execute("SET LOCAL search_path = DEFAULT")
            db.execute("CREATE EXTENSION IF NOT EXISTS vector")
            db.execute(SET_PATH)
    except (errors.InsufficientPrivilege, errors.UndefinedFile) as exc:
        raise NoVectorSearchError(
            "the role may not install pgvector: as an administrator of the database, "
            "`CREATE EXTENSION vector`"
        ) from exc


# The mean of the vectors of a tool's text and of its examples is what is searched for.
_TABLE = sql.SQL(
    """
    CREATE TABLE IF NOT EXISTS discovery.search_vectors (
        space int NOT NULL,
        server bigint NOT NULL,
        position int NOT NULL,
        vector {halfvec} NOT NULL,
        PRIMARY KEY (space, server, position),
        FOREIGN KEY (space, server) REFERENCES discovery.search_vector_servers ON DELETE CASCADE
    );
    ALTER TABLE discovery.search_vectors ENABLE ROW LEVEL SECURITY
    """
)
