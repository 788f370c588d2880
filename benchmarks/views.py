"""What ten views over 10,000 tools cost: memory beside the catalog and its index, and a search.

    python benchmarks/views.py [--tools 10000] [--views 10] [--memory]

The catalog is that of `search_speed.py`. Each view shows other tools: nearly all, half, a tenth or
a hundredth of those of every server, or some servers whole. Memory is what Python allocates for the
views, when each has answered searches, listed its servers and a server's tools, and found a tool by
its name, beside what it allocates for the catalog, the index and the same answers without a view
(goal: 15 %). The library of patterns, 1 MB that the first rule loads, is loaded before. A search is
CPU time, the least of several rounds, in turn with the same one without a view (goal: 1.1 times).
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Sequence

from msgspec.structs import replace
from search_speed import TOOLS_A_SERVER, Words, part

from discovery_engine.catalog import Catalog
from discovery_engine.config.serve_settings import ViewSettings
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.rules.rule import Rule
from discovery_engine.rules.ruleset import ToolRules
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.scope import Scope, ScopedViews
from discovery_engine.view.view import View

QUERIES = 100
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--views", type=int, default=10)
    parser.add_argument("--memory", action="store_true", help="memory only")
    options = parser.parse_args()
    words = Words(seed=7)
    queries = [" ".join(words.some(2, 8)) for _ in range(QUERIES)]
    ToolRules([Rule(patterns=("*",))])
    tracemalloc.start()
    whole = make_view(words, options.tools)
    read(whole, queries)
    base = tracemalloc.get_traced_memory()[0]
    scoped = [ScopedViews(scope(number)) for number in range(options.views)]
    views = [catalogs.view(whole) for catalogs in scoped]
    for view in views:
        read(view, queries)
    more = tracemalloc.get_traced_memory()[0] - base
    tracemalloc.stop()
    print(f"catalog and index {base / 1e6:7.1f} MB")
    print(f"{options.views} views          {more / 1e6:7.1f} MB  {more / base:6.1%} (goal: 15 %)")
    if options.memory:
        return
    for number, view in enumerate(views):
        shown = sum(len(part.entries) for part in view.catalog.parts.values())
        alone, within = compare(whole, view, queries)
        print(f"view {number}: {shown:6d} tools {within:6.3f} ms, {within / alone:5.2f} times")


def make_view(words: Words, tools: int) -> View:
    parts = (part(words, number) for number in range(tools // TOOLS_A_SERVER))
    catalog = Catalog.of(replace(one, listed_at=1.0) for one in parts)
    servers = tuple(ServerSettings(name) for name in catalog.parts)
    settings = Settings(servers=servers)
    searcher = build_searcher(catalog, settings.search)
    return View(settings, catalog, lambda: searcher)


def read(view: View, queries: Sequence[str]) -> None:
    """Ask what clients ask, so that everything is there that is kept for later answers."""
    for query in queries:
        view.search(query)
    view.servers()
    part = next(part for part in view.catalog.parts.values() if part.entries)
    view.list_tools(part.server)
    view.details(None, f"{part.server}__{part.entries[0].tool.name}")
    view.details(None, part.entries[0].tool.name)


def scope(number: int) -> Scope:
    """Of five kinds in turn."""
    match number % 5:
        case 0:
            rules = (Rule(patterns=(f"*{number % 10}",), enabled=False),)
        case 1:
            rules = (Rule(patterns=("/[02468]$/",), enabled=True),)
        case 2:
            return Scope.of_view(ViewSettings(f"view{number}", servers=(f"*{number % 10}",)))
        case 3:
            rules = (Rule(patterns=(f"*{number % 10}",), enabled=True),)
        case _:
            digit = f"*{number % 10}"
            rules = (Rule(patterns=(digit,), servers=(digit,), enabled=True),)
    return Scope.of_view(ViewSettings(f"view{number}", rules=rules))


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
