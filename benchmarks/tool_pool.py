"""How often the pool of `server.mode: dynamic` has the tool that is needed next.

    python benchmarks/tool_pool.py FOLDER [--sets a,b] [--limit 15] [--grid]
    python benchmarks/tool_pool.py --cost

FOLDER is as for `relevance.py`: real requests, and the tools that are right for them. A session is
one user's: the requests that concern a few servers, the frequent ones more often (Zipf), some a
minute apart and some after a break. Where a right tool is in the pool, it is called. Otherwise the
request is searched for, and what is found goes into the pool.

Shown is the share of the requests that need no search, of those that were made before, beside the
same pool with other rules of eviction: LRU, LFU, chance, and Belady's, which knows the future.
`--grid` tries other weights. `--cost` is what the pool adds to a search, in CPU time.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple, Protocol

from relevance import lines, read_catalog

from discovery_engine.agent.tool_pool import PoolRules, ToolPool
from discovery_engine.config.settings import SearchSettings, Settings
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.view.view import View

SESSIONS = 40  # of a set
REQUESTS = 80  # of a session
TOPICS = 20  # different requests of a session
SERVERS = 4  # that a session is about
PAUSE, BREAK = 90.0, 3600.0  # seconds, on average
BREAKS = 0.05  # of the pauses
ROUNDS = 2000

Found = Sequence[tuple[ToolKey, float]]


class Request(NamedTuple):
    right: frozenset[ToolKey]
    found: Found
    at: float = 0.0


class Pool(Protocol):
    def __contains__(self, key: object) -> bool: ...

    def register(self, found: Found) -> None: ...

    def use(self, key: ToolKey) -> None: ...


class Ours:
    def __init__(self, rules: PoolRules, clock: Callable[[], float], *, uses: bool = True) -> None:
        self._pool = ToolPool(clock=clock)
        self._rules = rules
        self._uses = uses

    def __contains__(self, key: object) -> bool:
        return key in self._pool

    def register(self, found: Found) -> None:
        self._pool.register(found, self._rules)

    def use(self, key: ToolKey) -> None:
        if self._uses:
            self._pool.use(key)


class Evicting:
    """A pool that evicts the tools with the smallest value."""

    def __init__(self, limit: int, value: Callable[[ToolKey], float]) -> None:
        self._limit = limit
        self._value = value
        self._keys: set[ToolKey] = set()
        self.turn = 0
        self.last: dict[ToolKey, int] = {}
        self.count: Counter[ToolKey] = Counter()

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def register(self, found: Found) -> None:
        best = [key for key, _ in found[: self._limit]]
        surplus = len(self._keys | set(best)) - self._limit
        candidates = sorted(self._keys - set(best), key=lambda key: (self._value(key), key))
        self._keys -= set(candidates[: max(0, surplus)])
        self._keys |= set(best)
        for key in best:
            self._note(key)

    def use(self, key: ToolKey) -> None:
        self._note(key)

    def _note(self, key: ToolKey) -> None:
        self.turn += 1
        self.last[key] = self.turn
        self.count[key] += 1


def lru(limit: int) -> Evicting:
    pool = Evicting(limit, lambda key: pool.last[key])
    return pool


def lfu(limit: int) -> Evicting:
    pool = Evicting(limit, lambda key: pool.count[key])
    return pool


class Belady(Evicting):
    def __init__(self, limit: int, session: Sequence[Request]) -> None:
        super().__init__(limit, self._next_need)
        self.session = session
        self.at = 0

    def _next_need(self, key: ToolKey) -> float:
        later = (n for n in range(self.at + 1, len(self.session)) if key in self.session[n].right)
        return -next(later, len(self.session))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sets", default="", help="names, joined by commas; all if left out")
    parser.add_argument("--limit", type=int, default=15, help="tools in the pool")
    parser.add_argument("--grid", action="store_true", help="try other weights")
    parser.add_argument("--cost", action="store_true", help="what the pool adds to a search")
    options = parser.parse_args()
    if options.cost:
        show_cost()
        return
    chosen = [name for name in options.sets.split(",") if name]
    folders = [f for f in sorted(options.folder.iterdir()) if (f / "queries.jsonl").exists()]
    sets = {f.name: list(sessions(f)) for f in folders if not chosen or f.name in chosen}
    if options.grid:
        grid(sets, options.limit)
        return
    rules = PoolRules(limit=options.limit)
    policies: dict[str, Callable[[Clock, Sequence[Request]], Pool]] = {
        "ours": lambda clock, _: Ours(rules, clock),
        "no use": lambda clock, _: Ours(rules, clock, uses=False),
        "LRU": lambda _, __: lru(options.limit),
        "LFU": lambda _, __: lfu(options.limit),
        "chance": lambda _, __: Evicting(options.limit, lambda __: random.random()),
        "Belady": lambda _, session: Belady(options.limit, session),
    }
    print(f"{'set':14s} again " + " ".join(f"{name:>7s}" for name in policies))
    table = []
    for name, played in sets.items():
        row = [hit_rate(played, make) for make in policies.values()]
        table.append(row)
        print(f"{name:14s} {asked_again(played):5.2f} " + figures(row), flush=True)
    print(f"{'macro':20s} " + figures([sum(column) / len(table) for column in zip(*table)]))  # noqa: B905


def grid(sets: dict[str, list[list[Request]]], limit: int) -> None:
    for score, fresh_for in product((0.0, 0.3, 0.5, 0.7, 0.9, 1.0), (600.0, 1800.0, 7200.0)):
        rules = PoolRules(limit, score, 1 - score, fresh_for)
        rates = [hit_rate(played, lambda clock, _: Ours(rules, clock)) for played in sets.values()]  # noqa: B023
        print(f"score {score:.1f} fresh for {fresh_for:6.0f} s {sum(rates) / len(rates):7.3f}")


def sessions(folder: Path) -> Iterator[list[Request]]:
    catalog, descriptions = read_catalog(folder)
    settings = Settings(search=SearchSettings())
    searcher = build_searcher(catalog, settings.search, descriptions=descriptions)
    view = View(settings, catalog, lambda: searcher)
    known: dict[str, Request] = {}

    def made(query: dict) -> Request:
        if query["query"] not in known:
            pairs = query["relevant"]
            right = frozenset(ToolKey(ServerName(s), ToolName(t)) for s, t in pairs)
            hits = view.search(query["query"]).hits
            known[query["query"]] = Request(right, [(h.entry.key, h.relevance) for h in hits])
        return known[query["query"]]

    by_server: dict[str, list[dict]] = {}
    for query in lines(folder / "queries.jsonl"):
        for server in sorted({server for server, _ in query["relevant"]}):
            by_server.setdefault(server, []).append(query)
    for number in range(SESSIONS):
        yield list(session(random.Random(number), by_server, made))


def session(
    chance: random.Random, by_server: dict[str, list[dict]], made: Callable[[dict], Request]
) -> Iterator[Request]:
    servers = chance.sample(sorted(by_server), min(SERVERS, len(by_server)))
    about = [query for server in servers for query in by_server[server]]
    topics = [made(query) for query in chance.sample(about, min(TOPICS, len(about)))]
    weights = [1 / rank for rank in range(1, len(topics) + 1)]
    now = 0.0
    for topic in chance.choices(topics, weights, k=REQUESTS):
        now += chance.expovariate(1 / (BREAK if chance.random() < BREAKS else PAUSE))
        yield topic._replace(at=now)


def hit_rate(
    played: Iterable[Sequence[Request]], make: Callable[[Clock, Sequence[Request]], Pool]
) -> float:
    """Of the requests that were made before, the share whose tool is in the pool."""
    hits = again = 0
    for requests in played:
        clock = Clock()
        pool = make(clock, requests)
        seen: set[frozenset[ToolKey]] = set()
        for at, request in enumerate(requests):
            clock.now = request.at
            if isinstance(pool, Belady):
                pool.at = at
            present = next((key for key in sorted(request.right) if key in pool), None)
            again += request.right in seen
            hits += request.right in seen and present is not None
            seen.add(request.right)
            if present is None:
                pool.register(request.found)
                present = next((key for key in sorted(request.right) if key in pool), None)
            if present is not None:
                pool.use(present)
    return hits / max(1, again)


def asked_again(played: Sequence[Sequence[Request]]) -> float:
    before = sum(len({request.right for request in requests}) for requests in played)
    return 1 - before / sum(map(len, played))


def show_cost() -> None:
    keys = [ToolKey(ServerName(f"server{n % 50}"), ToolName(f"tool_{n}")) for n in range(500)]
    chance = random.Random(1)
    for limit in (15, 100):
        pool, rules = ToolPool(), PoolRules(limit=limit)
        searches = [[(key, 0.5) for key in chance.sample(keys, 10)] for _ in range(ROUNDS)]
        start = time.process_time()
        for found in searches:
            pool.register(found, rules)
        spent = (time.process_time() - start) / ROUNDS * 1000
        print(f"a search that fills a pool of {limit}: {spent:.4f} ms (goal: 0.2 ms)")


def figures(values: Iterable[float]) -> str:
    return " ".join(f"{value:7.3f}" for value in values)


if __name__ == "__main__":
    main()
