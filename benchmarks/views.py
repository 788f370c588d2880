"""What ten views over 10,000 tools cost: memory beside the catalog and its index, and a search.

    python benchmarks/views.py [--tools 10000] [--views 10]

The catalog is that of `search_speed.py`. Each view hides other tools: by a rule, by a tag, by
servers. Memory is what Python allocates for the views, with all that their answers keep, beside
what it allocates for the catalog and the index (goal: 15 %). A search is CPU time, the least of
several rounds, in turn with the same search without a view (goal: 10 %).
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Sequence

from search_speed import TOOLS_A_SERVER, Words, part

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import ServerSettings, Settings, ViewSettings
from discovery_engine.rules.rule import Rule
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.scope import Scope, ScopedCatalogs
from discovery_engine.view.view import View

QUERIES = 100
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--views", type=int, default=10)
    options = parser.parse_args()
    words = Words(seed=7)
    queries = [" ".join(words.some(2, 8)) for _ in range(QUERIES)]
    tracemalloc.start()
    whole = make_view(words, options.tools)
    whole.search(queries[0])
    base = tracemalloc.get_traced_memory()[0]
    scoped = [ScopedCatalogs(scope(number)) for number in range(options.views)]
    views = [catalogs.view(whole) for catalogs in scoped]
    for view in views:
        view.search(queries[0])
        view.servers()
    more = tracemalloc.get_traced_memory()[0] - base
    tracemalloc.stop()
    print(f"catalog and index {base / 1e6:7.1f} MB")
    print(f"{options.views} views          {more / 1e6:7.1f} MB  {more / base:6.1%} (goal: 15 %)")
    for number, view in enumerate(views):
        shown = sum(len(part.entries) for part in view.catalog.parts.values())
        alone, within = compare(whole, view, queries)
        print(f"view {number}: {shown:6d} tools {within:6.3f} ms, {within / alone:5.2f} times")


def make_view(words: Words, tools: int) -> View:
    catalog = Catalog.of(part(words, number) for number in range(tools // TOOLS_A_SERVER))
    servers = tuple(ServerSettings(name) for name in catalog.parts)
    settings = Settings(servers=servers)
    searcher = build_searcher(catalog, settings.search)
    return View(settings, catalog, lambda: searcher)


def scope(number: int) -> Scope:
    """Of three kinds in turn: a few tools hidden by a rule, half of them, most of the servers."""
    match number % 3:
        case 0:
            rules = (Rule(patterns=(f"*{number}",), enabled=False),)
            return Scope.of_view(ViewSettings(f"view{number}", rules=rules))
        case 1:
            rules = (Rule(patterns=("/[02468]$/",), enabled=True),)
            return Scope.of_view(ViewSettings(f"view{number}", rules=rules))
    return Scope.of_view(ViewSettings(f"view{number}", servers=(f"*{number}",)))


def compare(whole: View, view: View, queries: Sequence[str]) -> tuple[float, float]:
    """Milliseconds of a search without the view and within it."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for at, one in enumerate((whole, view)):
            start = time.process_time()
            for query in queries:
                one.search(query)
            best[at] = min(best[at], (time.process_time() - start) / len(queries) * 1000)
    return best[0], best[1]


if __name__ == "__main__":
    main()
