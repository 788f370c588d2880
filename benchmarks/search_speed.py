"""What a search costs: CPU of a query, of building, of replacing one server; and memory.

    python benchmarks/search_speed.py [--sizes 1000,10000,100000] [--catalog FOLDER]

The catalogs are made up: ten tools a server, words drawn as rarely as in real text (Zipf). Every
figure is CPU time of this process; the queries are of two to eight words, each asked once. With
`--catalog` a real one, with its own queries: a folder as for `relevance.py`.

Two others answer the same queries over the same tools: SQLite's FTS5, and FastMCP's BM25 transform
if fastmcp is installed. How many times our query their query takes stands beside them.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

from relevance import lines, read_catalog

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import SearchSettings
from discovery_engine.rules.rule import Verdict
from discovery_engine.search.searcher import Searcher, build_searcher
from discovery_engine.tools.model import ServerName, Tool

VOCABULARY = 20_000
QUERIES = 200
TOOLS_A_SERVER = 10
LARGEST_FOR_FASTMCP = 20_000  # tools; beyond that a query takes a second

Ask = Callable[[str], object]


class Words:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "etaoinshrdlucm"
        made = {
            "".join(self._random.choices(letters, k=self._random.randint(3, 9)))
            for _ in range(VOCABULARY * 2)
        }
        self._words = sorted(made)[:VOCABULARY]
        self._random.shuffle(self._words)
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def some(self, least: int, most: int) -> list[str]:
        count = self._random.randint(least, most)
        return self._random.choices(self._words, cum_weights=self._weights, k=count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--catalog", type=Path, help="a real one, with its queries")
    options = parser.parse_args()
    print("  tools  query ms  p95 ms  build s  replace ms     MB        FTS5 ms     FastMCP ms")
    for size in map(int, filter(None, options.sizes.split(","))):
        words = Words(seed=7)
        catalog = Catalog.of(part(words, n) for n in range(size // TOOLS_A_SERVER))
        measure(catalog, [" ".join(words.some(2, 8)) for _ in range(QUERIES)])
    if options.catalog:
        catalog, _ = read_catalog(options.catalog)
        queries = [line["query"] for line in lines(options.catalog / "queries.jsonl")]
        measure(catalog, queries[:QUERIES])


def measure(catalog: Catalog, queries: Sequence[str]) -> None:
    for entry in catalog:
        _ = entry.tool.definition  # parsed by the listing already
    tracemalloc.start()
    held = build_searcher(catalog, SearchSettings())
    memory = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    del held
    start = time.process_time()
    searcher = build_searcher(catalog, SearchSettings())
    built = time.process_time() - start
    spent = sorted(asked(ours(searcher), query) for query in queries)
    median = statistics.median(spent)
    words = Words(seed=8)
    replaced = statistics.median(replace(searcher, catalog, words, n) for n in range(20))
    print(
        f"{len(catalog):7d} {median:9.2f} {spent[int(len(spent) * 0.95)]:7.2f} "
        f"{built:8.2f} {replaced:11.2f} {memory:6.0f} "
        f"{beside(fts5(catalog), queries, median)} {beside(fastmcp(catalog), queries, median)}",
        flush=True,
    )


def beside(ask: Ask | None, queries: Sequence[str], ours: float) -> str:
    if ask is None:
        return f"{'-':>14s}"
    spent = statistics.median(asked(ask, query) for query in queries)
    return f"{spent:7.2f} {spent / ours:5.1f}x"


def ours(searcher: Searcher) -> Ask:
    return lambda query: searcher.search(
        searcher.analyze(query), limit=10, accepts=lambda e: e.verdict.enabled
    )


def fts5(catalog: Catalog) -> Ask:
    """Any of the words, the name four times as heavy as the description."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE tools USING fts5(name, description)")
    rows = ((e.tool.name, e.tool.description) for e in catalog)
    database.executemany("INSERT INTO tools VALUES (?, ?)", rows)

    def ask(query: str) -> object:
        terms = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        return database.execute(
            "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 4, 1) LIMIT 10",
            (terms,),
        ).fetchall()

    return ask


def fastmcp(catalog: Catalog) -> Ask | None:
    """Its own index over its own text of a tool; None if it is not installed."""
    if len(catalog) > LARGEST_FOR_FASTMCP:
        return None
    try:
        from fastmcp.server.transforms.search.base import (  # noqa: PLC0415 - may be missing
            _extract_searchable_text,
        )
        from fastmcp.server.transforms.search.bm25 import _BM25Index  # noqa: PLC0415 - the same
    except ImportError:
        return None
    index = _BM25Index()
    index.build([_extract_searchable_text(as_fastmcp(entry.tool)) for entry in catalog])
    return lambda query: index.query(query, 10)


def as_fastmcp(tool: Tool) -> SimpleNamespace:
    """What it reads of a tool, mounted under its server's name."""
    name = f"{tool.server}_{tool.name}"
    return SimpleNamespace(name=name, description=tool.description, parameters=tool.input_schema)


def part(words: Words, number: int) -> ServerPart:
    server = ServerName(f"server{number}")
    tools = sorted((tool(words, server, n) for n in range(TOOLS_A_SERVER)), key=lambda t: t.name)
    return ServerPart(server, tuple(Entry(t, Verdict()) for t in tools))


def tool(words: Words, server: ServerName, number: int) -> Tool:
    properties = {
        "_".join(words.some(1, 2)): {"type": "string", "description": " ".join(words.some(3, 9))}
        for _ in range(4)
    }
    definition = {
        "name": "_".join([*words.some(2, 3), str(number)]),
        "description": " ".join(words.some(8, 30)),
        "inputSchema": {"type": "object", "properties": properties},
    }
    return Tool.from_mcp(server, definition)


def asked(ask: Ask, query: str) -> float:
    start = time.process_time()
    ask(query)
    return (time.process_time() - start) * 1000


def replace(searcher: Searcher, catalog: Catalog, words: Words, number: int) -> float:
    changed = catalog.with_parts([part(words, number)])
    start = time.process_time()
    build_searcher(changed, SearchSettings(), previous=searcher)
    return (time.process_time() - start) * 1000


if __name__ == "__main__":
    main()
