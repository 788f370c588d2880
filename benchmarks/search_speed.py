"""What a search costs: CPU of a query, of building, of replacing one server; and memory.

    python benchmarks/search_speed.py [--sizes 1000,10000,100000]

The catalogs are made up: ten tools a server, words drawn as rarely as in real text (Zipf). Every
figure is CPU time of this process; the queries are of two to eight words, each asked once.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from itertools import accumulate

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import SearchSettings
from discovery_engine.rules.rule import Verdict
from discovery_engine.search.searcher import Searcher, build_searcher
from discovery_engine.tools import ServerName, Tool

VOCABULARY = 20_000
QUERIES = 200
TOOLS_A_SERVER = 10


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
    options = parser.parse_args()
    print("  tools  query ms  p95 ms  build s  replace ms     MB")
    for size in map(int, options.sizes.split(",")):
        measure(size)


def measure(size: int) -> None:
    words = Words(seed=7)
    catalog = Catalog.of(part(words, n) for n in range(size // TOOLS_A_SERVER))
    for entry in catalog:
        _ = entry.tool.definition  # parsed by the listing already
    tracemalloc.start()
    build_searcher(catalog, SearchSettings())
    memory = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    start = time.process_time()
    searcher = build_searcher(catalog, SearchSettings())
    built = time.process_time() - start
    spent = sorted(asked(searcher, " ".join(words.some(2, 8))) for _ in range(QUERIES))
    replaced = statistics.median(replace(searcher, catalog, words, n) for n in range(20))
    print(
        f"{size:7d} {statistics.median(spent):9.2f} {spent[int(QUERIES * 0.95)]:7.2f} "
        f"{built:8.2f} {replaced:11.2f} {memory:6.0f}",
        flush=True,
    )


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


def asked(searcher: Searcher, query: str) -> float:
    start = time.process_time()
    searcher.search(query, limit=10, accepts=lambda entry: entry.verdict.enabled)
    return (time.process_time() - start) * 1000


def replace(searcher: Searcher, catalog: Catalog, words: Words, number: int) -> float:
    changed = catalog.with_parts([part(words, number)])
    start = time.process_time()
    build_searcher(changed, SearchSettings(), previous=searcher)
    return (time.process_time() - start) * 1000


if __name__ == "__main__":
    main()
