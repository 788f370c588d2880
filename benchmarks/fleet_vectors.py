"""Vectors compared in the database of gateways beside memory and plain pgvector.

    python benchmarks/fleet_vectors.py [--sizes 20000,100000] [--dimensions 384] [--queries 200]

Needs no model: tools are points around centres, fifty to each on average, which lie in a space of
fewer dimensions, as texts of a model do; a request is a tool's point, moved as far as that is from
its centre. Vectors are written as a gateway does. Everything is measured in one run, on a
PostgreSQL that is started for it with 128 MB of shared buffers, and 4 GB to build an index:

recall@10   the share of the ten nearest by all vectors that are found
mean, low   the largest error of the mean and the lowest similarity, which a sample gives
p50/p99 ms  of a request: what a search asks for (best, mean, lowest, the 60 nearest tools and their
            exact similarities). Beside it the same in memory; and plain pgvector, its ten nearest
            rows by an HNSW index with the defaults, with its recall
built s     the index; after the vectors were written, which is beside it
MB          of the index and of the vectors themselves, plain pgvector beside it
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from psycopg import Connection

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fleet_search import (  # noqa: E402
    PATIENCE,
    configure,
    in_database,
    keep,
    made_up,
    quantiles,
)

from discovery_engine._util.batches import batches  # noqa: E402
from discovery_engine.search.vectors import ToolVectors, Vectors  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.postgres.database_searcher import DatabaseIndex  # noqa: E402
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry  # noqa: E402
from discovery_engine.store.postgres.search_vectors import (  # noqa: E402
    StoredVectors,
    VectorSpace,
    open_space,
)
from tests.postgres import open_server  # noqa: E402

A_CENTRE = 50  # tools
FACTORS = 48  # dimensions of the space that the centres lie in
NOISE = 0.6  # the distance of a tool from its centre
NEAREST = 60  # tools that a search asks for
AT_ONCE = 1_000  # servers whose vectors are written together
SETTINGS = ("shared_buffers = '128MB'", "maintenance_work_mem = '4GB'", "max_wal_size = '8GB'")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="20000,100000")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    with open_server() as server:
        configure(server, *SETTINGS)
        for size in map(int, filter(None, options.sizes.split(","))):
            url = server.create_database()
            with server.admin(url.rpartition("/")[2]) as admin:
                admin.execute("CREATE EXTENSION vector")
            with closing(open_database(url, timeout=PATIENCE)) as registry:
                measure(registry, size, options.dimensions, options.queries)


def measure(registry: PostgresRegistry, size: int, dimensions: int, queries: int) -> None:
    catalog = made_up(size)
    points, asked = made_up_points(len(catalog), dimensions, queries)
    keep(registry, catalog)
    index = in_database(catalog, registry).database_index
    space = open_space(registry.search, index.stored().number, "made up", dimensions)
    assert space
    began = time.perf_counter()
    fill(index, space, points)
    written = time.perf_counter() - began
    began = time.perf_counter()
    mean = space.finish(size)
    built = time.perf_counter() - began
    memory = Vectors([entry.tool for entry in catalog], [one.tobytes() for one in points])
    database = StoredVectors(space, index, mean, size, is_static=False)
    plain, plain_built = plain_pgvector(registry, points)
    print(f"{len(catalog):,} tools, {dimensions} dimensions, {queries} requests", flush=True)
    compare(memory, database, plain, asked)
    print(f"  written in {written:.0f} s, built in {built:.0f} s; plain in {plain_built:.0f} s")
    name = f"search_vectors_of_space_{space.number}"
    print(
        f"  MB: index {size_of(registry, name)}, vectors {size_of(registry, 'search_vectors')}, "
        f"plain {size_of(registry, 'plain_index')} and {size_of(registry, 'plain_vectors')}",
        flush=True,
    )


def compare(
    memory: Vectors,
    database: StoredVectors,
    plain: Callable[[Sequence[float]], list[int]],
    asked: Any,
) -> None:
    places = {tool.key: row for row, tool in enumerate(memory.tools)}
    recalls, plain_recalls, means, lowest = [], [], [], []
    for query in asked:
        exact, found = memory.compare([query]), database.compare([query])
        assert exact
        assert found
        known = {places[tool.key] for tool in exact.nearest(10, lambda _: True)}
        same = {places[tool.key] for tool in found.nearest(10, lambda _: True)}
        recalls.append(len(known & same) / len(known))
        plain_recalls.append(len(known & {*plain(query)}) / len(known))
        means.append(abs(exact.mean - found.mean))
        lowest.append(abs(exact.lowest - found.lowest))
    gc.collect()
    times = [
        quantiles([spent(work, query) for query in asked])
        for work in (search_of(database), search_of(memory), plain)
    ]
    print(
        f"  recall@10 {statistics.mean(recalls):.4f}, plain {statistics.mean(plain_recalls):.4f}; "
        f"mean {max(means):.4f}, low {max(lowest):.4f}"
    )
    print(f"  p50/p99 ms: database {times[0]}, memory {times[1]}, plain pgvector {times[2]}")


def spent(search: Callable[[Sequence[float]], object], query: Sequence[float]) -> float:
    began = time.perf_counter()
    search(query)
    return time.perf_counter() - began


def search_of(vectors: ToolVectors) -> Callable[[Sequence[float]], object]:
    def search(query: Sequence[float]) -> object:
        compared = vectors.compare([query])
        assert compared
        return [compared.cosine(tool) for tool in compared.nearest(NEAREST, lambda _: True)]

    return search


def made_up_points(count: int, dimensions: int, queries: int) -> tuple[Any, Any]:
    """Points of half precision, and requests."""
    made = np.random.default_rng(7)
    factors = made.standard_normal((FACTORS, dimensions))
    centres = unit(made.standard_normal((max(1, count // A_CENTRE), FACTORS)) @ factors)
    chosen = centres[made.integers(len(centres), size=count)]
    points = np.empty((count, dimensions), "<f2")
    for start in range(0, count, 50_000):
        some = chosen[start : start + 50_000]
        points[start : start + len(some)] = unit(some + noise(made, some.shape))
    near = points[made.integers(count, size=queries)].astype("f8")
    return points, unit(near + noise(made, near.shape))


def noise(made: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return NOISE * unit(made.standard_normal(shape))


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fill(index: DatabaseIndex, space: VectorSpace, points: Any) -> None:
    rows, numbers = iter(points), index.stored().numbers
    sizes = {numbers[name]: len(server.tools) for name, server in index.servers.items()}
    for batch in batches(sizes, lambda _: 1, most=AT_ONCE):
        space.save({n: [[next(rows).tobytes()] for _ in range(sizes[n])] for n in batch})


def plain_pgvector(
    registry: PostgresRegistry, points: Any
) -> tuple[Callable[[Sequence[float]], list[int]], float]:
    size = points.shape[1]

    def fill(db: Connection) -> None:
        db.execute(f"CREATE TABLE discovery.plain_vectors (id int, vector public.halfvec({size}))")
        command = "COPY discovery.plain_vectors FROM STDIN"
        with db.cursor() as cursor, cursor.copy(command) as copy:
            for number, point in enumerate(points):
                copy.write_row((number, str(point.tolist())))

    registry.database.write(fill)
    began = time.perf_counter()
    create = """
        CREATE INDEX plain_index ON discovery.plain_vectors
        USING hnsw (vector public.halfvec_cosine_ops)
        """
    registry.database.run_alone(lambda db: db.execute(create))
    built = time.perf_counter() - began
    query = """
        SELECT id FROM discovery.plain_vectors
        ORDER BY vector OPERATOR(public.<=>) %s::public.halfvec LIMIT 10
        """

    def search(vector: Sequence[float]) -> list[int]:
        found = registry.database.read(
            lambda db: db.execute(query, (str([*map(float, vector)]),)).fetchall()
        )
        return [number for (number,) in found]

    return search, built


def size_of(registry: PostgresRegistry, name: str) -> str:
    query = "SELECT coalesce(pg_relation_size(to_regclass(%s)), 0)"
    row = registry.database.read(lambda db: db.execute(query, (f"discovery.{name}",)).fetchone())
    return f"{(row or (0,))[0] / 1e6:.0f}"


if __name__ == "__main__":
    main()
