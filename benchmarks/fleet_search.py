"""Search in the database of gateways beside search in memory: answers, time, size and memory.

    python benchmarks/fleet_search.py [--sizes 10000,100000] [--queries 200]

First the development requests of `benchmarks/everyday` over its real catalog, then catalogs that
are made up as in `search_speed.py`. Everything is measured in one run, on a PostgreSQL that is
started for it:

same        the share of requests with the same hits, scores and confidence as from memory
recall@10   the share of the first ten hits of memory that are among those of the database
first ms    of a request, analysis and assessment included: p50 and p99; beside it from memory, and
            a plain full-text search: any of the words, `ts_rank`, ten rows
MB          of the tables and indexes of the search, and of the plain full-text search
RSS MB      of a process with the catalog alone, with a search in the database, with one in memory
"""

from __future__ import annotations

import argparse
import gc
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
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
from discovery_engine.registry.backends import open_database  # noqa: E402
from discovery_engine.registry.postgres.postgres_registry import PostgresRegistry  # noqa: E402
from discovery_engine.search.database.database_searcher import (  # noqa: E402
    open_database_searcher,
)
from discovery_engine.search.database.synchronization import SearchSynchronization  # noqa: E402
from discovery_engine.search.examples.book import OWN_EXAMPLES  # noqa: E402
from discovery_engine.search.ranking.confidence import Assessment  # noqa: E402
from discovery_engine.search.ranking.hit import Hit  # noqa: E402
from discovery_engine.search.searcher import Searcher, build_searcher  # noqa: E402
from tests.postgres import open_server  # noqa: E402

Answer = tuple[tuple[Hit, ...], Assessment]

SCOPE = "benchmark"
LIMIT = 10
PATIENCE = 600.0  # seconds for one operation of the database
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
    parser.add_argument("--resident", nargs=3, metavar=("WHERE", "URL", "SIZE"))
    options = parser.parse_args()
    if options.resident:
        where, url, size = options.resident
        print(resident(where, url, int(size)))
        return
    with open_server() as server:
        with closing(open_database(server.create_database(), timeout=PATIENCE)) as registry:
            catalog, _ = read_catalog("development", with_examples=False)
            asked = [one["query"] for one in lines(FOLDER / "development.jsonl")]
            measure("everyday", catalog, asked, registry)
        for size in map(int, filter(None, options.sizes.split(","))):
            url = server.create_database()
            with closing(open_database(url, timeout=PATIENCE)) as registry:
                words = Words(seed=9)
                asked = [" ".join(words.some(2, 8)) for _ in range(options.queries)]
                measure(f"{size:,} tools", made_up(size), asked, registry)
            for where in ("nowhere", "database", "memory"):
                print(f"  RSS MB, search {where:8s} {in_a_process(where, url, size)}", flush=True)


def measure(name: str, catalog: Catalog, asked: Sequence[str], registry: PostgresRegistry) -> None:
    names = [ServerSettings(server, StdioTransport("x")) for server in catalog.parts]
    registry.save_settings(SCOPE, Settings(servers=tuple(names)))
    registry.save_parts(SCOPE, catalog.parts.values(), revision=1)
    began = time.perf_counter()
    memory = build_searcher(catalog, SearchSettings())
    in_memory = time.perf_counter() - began
    began = time.perf_counter()
    database = in_database(catalog, registry)
    filled = time.perf_counter() - began
    registry.database.write(lambda db: db.execute("ANALYZE discovery.search_tools"))
    plain = plain_search(catalog, registry)
    for searcher in (memory, database):
        for query in asked[:5]:
            answer(searcher, f"{query} please")
    expected, found = timed(memory, asked), timed(database, asked)
    same = statistics.mean(a == b for a, b in zip(expected.answers, found.answers, strict=True))
    recall = statistics.mean(map(recalled, expected.answers, found.answers))
    print(f"{name}: {len(catalog):,} tools, {len(asked)} requests", flush=True)
    print(f"  same {same:.3f}  recall@10 {recall:.4f}")
    print(f"  p50/p99 ms: memory {expected.quantiles}, database {found.quantiles}", end=", ")
    print(f"plain full text {quantiles([spent(plain, query) for query in asked])}")
    print(
        f"  MB: search {size_of(registry, SEARCH)}, plain {size_of(registry, ('plain',))}", end=""
    )
    print(f"; made in s: memory {in_memory:.1f}, database {filled:.1f}", flush=True)


def in_database(catalog: Catalog, registry: PostgresRegistry) -> Searcher:
    def refuse() -> Searcher:
        raise AssertionError("the database does not answer")

    return open_database_searcher(
        catalog,
        SearchSettings(where="database"),
        descriptions={},
        book=OWN_EXAMPLES,
        documents=SearchSynchronization(registry.search, SCOPE),
        open_local=refuse,
    )


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


def in_a_process(where: str, url: str, size: int) -> str:
    command = [sys.executable, __file__, "--resident", where, url, str(size)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def resident(where: str, url: str, size: int) -> str:
    """The memory of this process with what it needs to answer, after an answer."""
    catalog = made_up(size)
    with closing(open_database(url, timeout=PATIENCE)) as registry:
        if where == "database":
            answer(in_database(catalog, registry), "read the file")
        elif where == "memory":
            searcher = build_searcher(catalog, SearchSettings())
            answer(searcher, "read the file")
        status = Path("/proc/self/status").read_text("utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return f"{int(line.split()[1]) / 1e3:.0f}"


if __name__ == "__main__":
    main()
