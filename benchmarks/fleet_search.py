"""Search in the database of gateways beside search in memory: answers, time, size and memory.

    python benchmarks/fleet_search.py [--sizes 10000,100000] [--queries 200] [--index-last]

Catalogs that are made up as in `search_speed.py`, and at last the development requests of
`benchmarks/everyday` over its real catalog. Everything is measured in one run, on a PostgreSQL that
is started for it with its usual 128 MB of shared buffers. With `--index-last` the index of terms is
made after a made-up catalog was written, which for a million tools is many times faster:

same        the share of requests with the same hits, scores and confidence as from memory
recall@10   the share of the first ten hits of memory that are among those of the database
p50/p99 ms  of a request, analysis and assessment included: p50 and p99; beside it from memory, and
            a plain full-text search: any of the words, `ts_rank`, ten rows
MB          of the tables and indexes of the search, and of the plain full-text search
made in s   the index in memory, and the documents and terms in the database
RSS MB      of a process with the catalog alone, with a search in the database, with one in memory
"""

from __future__ import annotations

import argparse
import gc
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct
from psycopg import Connection

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from everyday import FOLDER, lines, read_catalog  # noqa: E402
from search_speed import TOOLS_A_SERVER, Words, part  # noqa: E402

from discovery_engine.catalog import Catalog  # noqa: E402
from discovery_engine.config.settings import (  # noqa: E402
    SearchSettings,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.search.examples.book import OWN_EXAMPLES  # noqa: E402
from discovery_engine.search.ranking.confidence import Assessment  # noqa: E402
from discovery_engine.search.ranking.relevance import Hit  # noqa: E402
from discovery_engine.search.searcher import Searcher, build_searcher  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.postgres.database_searcher import (  # noqa: E402
    DatabaseSearcher,
    open_database_searcher,
)
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry  # noqa: E402
from discovery_engine.store.postgres.search_documents import SearchDocuments  # noqa: E402
from tests.postgres import PostgresServer, open_server  # noqa: E402

Answer = tuple[tuple[Hit, ...], Assessment]

SCOPE = "benchmark"
LIMIT = 10
PATIENCE = 600.0  # seconds for one operation of the database
AT_ONCE = 1_000  # servers that are written together
INDEX = "SELECT pg_get_indexdef(to_regclass(%s))"
SEARCH = ("search_tools", "search_servers", "search_terms", "search_indexes")


class Timed(Struct):
    """The answers to requests, and the seconds that each took."""

    answers: list[Answer]
    seconds: list[float]

    @property
    def quantiles(self) -> str:
        return quantiles(self.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--index-last", action="store_true")
    options = parser.parse_args()
    with open_server() as server:
        configure(server, "shared_buffers = '128MB'", "max_wal_size = '8GB'")
        for size in map(int, filter(None, options.sizes.split(","))):
            words = Words(seed=9)
            asked = [" ".join(words.some(2, 8)) for _ in range(options.queries)]
            url = server.create_database()
            measure(made_up(size), asked, url, index_last=options.index_last)
        catalog, _ = read_catalog("development", with_examples=False)
        asked = [one["query"] for one in lines(FOLDER / "development.jsonl")]
        measure(catalog, asked, server.create_database())


def configure(server: PostgresServer, *settings: str) -> None:
    with server.admin() as admin:
        for one in settings:
            admin.execute(f"ALTER SYSTEM SET {one}")
    server.stop()
    server.start()


def measure(catalog: Catalog, asked: Sequence[str], url: str, *, index_last: bool = False) -> None:
    print(f"{len(catalog):,} tools, {len(asked)} requests", flush=True)
    alone = in_a_copy(resident)
    filled = in_a_copy(lambda: fill(catalog, url, index_last=index_last))
    beside = in_a_copy(lambda: resident_with_database(catalog, url))
    began = time.perf_counter()
    memory = build_searcher(catalog, SearchSettings())
    print(f"  made in s: memory {time.perf_counter() - began:.0f}, database {filled:.0f}")
    print(f"  RSS MB: catalog {alone:.0f}, database {beside:.0f}, memory {in_a_copy(resident):.0f}")
    with closing(open_database(url, timeout=PATIENCE)) as registry:
        compare(memory, catalog, asked, registry)


def fill(catalog: Catalog, url: str, *, index_last: bool) -> float:
    """Write a catalog with its documents; returns the seconds that the documents took."""
    with closing(open_database(url, timeout=PATIENCE)) as registry:
        keep(registry, catalog)
        began = time.perf_counter()
        run = registry.database.write
        if index_last:
            name = "discovery.search_tools_by_term"
            [definition] = run(lambda db: db.execute(INDEX, (name,)).fetchone()) or ("",)
            run(lambda db: db.execute(f"DROP INDEX {name}"))
        in_database(catalog, registry)
        if index_last:
            run(lambda db: db.execute(f"SET LOCAL maintenance_work_mem = '1GB'; {definition}"))
        filled = time.perf_counter() - began
        run(lambda db: db.execute("ANALYZE"))
    return filled


def keep(registry: PostgresRegistry, catalog: Catalog) -> None:
    names = [ServerSettings(server, StdioTransport("x")) for server in catalog.parts]
    registry.save_settings(SCOPE, Settings(servers=tuple(names)))
    parts = iter(catalog.parts.values())
    while batch := [*islice(parts, AT_ONCE)]:
        registry.save_parts(SCOPE, batch, revision=1)


def compare(
    memory: Searcher, catalog: Catalog, asked: Sequence[str], registry: PostgresRegistry
) -> None:
    database = in_database(catalog, registry)
    plain = plain_search(catalog, registry)
    for searcher in (memory, database):
        for query in asked[:5]:
            answer(searcher, f"{query} please")
    expected, found = timed(memory, asked), timed(database, asked)
    same = statistics.mean(a == b for a, b in zip(expected.answers, found.answers, strict=True))
    recall = statistics.mean(map(recalled, expected.answers, found.answers))
    print(f"  same {same:.3f}  recall@10 {recall:.4f}")
    print(f"  p50/p99 ms: memory {expected.quantiles}, database {found.quantiles}", end=", ")
    print(f"plain full text {quantiles([spent(plain, query) for query in asked])}")
    sizes = size_of(registry, SEARCH), size_of(registry, ("plain",))
    print(f"  MB: search {sizes[0]}, plain {sizes[1]}", flush=True)


def in_database(catalog: Catalog, registry: PostgresRegistry) -> DatabaseSearcher:
    def refuse() -> Searcher:
        raise AssertionError("the database does not answer")

    searcher = open_database_searcher(
        catalog,
        SearchSettings(where="database"),
        descriptions={},
        book=OWN_EXAMPLES,
        documents=SearchDocuments(registry.search, SCOPE),
        open_local=refuse,
    )
    searcher.complete()
    return searcher


def plain_search(catalog: Catalog, registry: PostgresRegistry) -> Callable[[str], object]:
    """PostgreSQL's own analysis and ranking, over the same names and descriptions."""
    make = (
        "CREATE TABLE discovery.plain (name text, text text)",
        "COPY discovery.plain FROM STDIN",
        (
            "ALTER TABLE discovery.plain ADD COLUMN terms tsvector "
            "GENERATED ALWAYS AS (to_tsvector('english', text)) STORED"
        ),
        "CREATE INDEX ON discovery.plain USING gin (terms)",
        "ANALYZE discovery.plain",
    )

    def fill(statement: str) -> None:
        def work(db: Connection) -> None:
            if not statement.startswith("COPY"):
                db.execute(statement)
                return
            with db.cursor() as cursor, cursor.copy(statement) as copy:
                for entry in catalog:
                    name = entry.tool.name.replace("_", " ")
                    copy.write_row((str(entry.key), f"{name} {entry.tool.description}"))

        registry.database.write(work)

    for statement in make:
        fill(statement)
    query = """
        SELECT name FROM discovery.plain, to_tsquery('english', %s) AS asked
        WHERE terms @@ asked ORDER BY ts_rank(terms, asked) DESC LIMIT 10
        """

    def search(text: str) -> object:
        asked = " | ".join(re.findall(r"[^\W_]+", text))
        return registry.database.read(lambda db: db.execute(query, (asked,)).fetchall())

    return search


def answer(searcher: Searcher, query: str) -> Answer:
    asked = searcher.analyze(query)
    hits = searcher.search(asked, limit=LIMIT, accepts=lambda entry: entry.is_visible)
    return hits, searcher.assess(asked, hits)


def timed(searcher: Searcher, asked: Sequence[str]) -> Timed:
    found = Timed([], [])
    gc.collect()  # what the catalog was made of; else one of the requests would wait for that
    for query in asked:
        began = time.perf_counter()
        found.answers.append(answer(searcher, query))
        found.seconds.append(time.perf_counter() - began)
    return found


def spent(search: Callable[[str], object], query: str) -> float:
    began = time.perf_counter()
    search(query)
    return time.perf_counter() - began


def recalled(expected: Answer, found: Answer) -> float:
    wanted = {hit.entry.key for hit in expected[0]}
    return len(wanted & {hit.entry.key for hit in found[0]}) / len(wanted) if wanted else 1.0


def quantiles(seconds: Sequence[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"{cuts[49] * 1e3:.1f}/{cuts[98] * 1e3:.1f}"


def size_of(registry: PostgresRegistry, tables: Sequence[str]) -> str:
    query = """
        SELECT sum(pg_total_relation_size(to_regclass('discovery.' || name)))
        FROM unnest(%s::text[]) AS name
        """
    [size] = registry.database.read(lambda db: db.execute(query, ([*tables],)).fetchone()) or (0,)
    return f"{float(size) / 1e6:.0f}"


def made_up(size: int) -> Catalog:
    words = Words(seed=7)
    return Catalog.of(part(words, n) for n in range(size // TOOLS_A_SERVER))


def resident_with_database(catalog: Catalog, url: str) -> float:
    with closing(open_database(url, timeout=PATIENCE)) as registry:
        answer(in_database(catalog, registry), "read the file")
        return resident()


def in_a_copy(work: Callable[[], float]) -> float:
    """What `work` returns in a fork of this process, whose memory stays as it is."""
    processes = get_context("fork")
    found, written = processes.Pipe(duplex=False)
    copy = processes.Process(target=lambda: written.send(work()))
    copy.start()
    written.close()
    return float(found.recv())


def resident() -> float:
    """The memory of this process in MB."""
    status = Path("/proc/self/status").read_text("utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1e3


if __name__ == "__main__":
    main()
