"""The cases that the confidence of search is fitted on: requests, each asked of one catalog.

Near misses are as many as are wanted: a request whose right tools are hidden, with all others of
their servers left. Of catalogs that say the same thing many times over, some other tool would serve
it, so that the larger of the sets have none.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

if TYPE_CHECKING:
    from embedding import Embedding

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import everyday  # noqa: E402
from long_requests import TASKS, Request, long_requests  # noqa: E402
from relevance import lines, read_catalog  # noqa: E402

from discovery_engine.catalog import Catalog, ServerPart  # noqa: E402
from discovery_engine.config.settings import SearchSettings  # noqa: E402
from discovery_engine.search.assessment import split_passages  # noqa: E402
from discovery_engine.search.ranking.confidence import FIRST, Signals  # noqa: E402
from discovery_engine.search.searcher import build_searcher  # noqa: E402
from discovery_engine.search.vectors import Similarities  # noqa: E402
from discovery_engine.tools.model import ServerName  # noqa: E402

UNSERVICEABLE = ROOT / "benchmarks" / "unserviceable"
HALVES = ROOT / "scripts" / "model" / "folds.json"
EVERYDAY = "everyday"
FOLDS = 5  # of the servers of everyday requests
MOST = 250  # queries of one set
MOST_LONG = 60  # long ones, and as many that nothing serves
MOST_HIDDEN = 120  # of one set whose right tools are hidden
MOST_TOOLS = 5_000  # of a set with hidden ones
AT_ONCE = 30  # requests whose right tools are hidden together, since each time needs an index
PICKED, READ, WRITTEN, MADE, TASK = "picked", "read", "written", "made", "task"
HIDDEN, GONE, NEAR, FAR = "hidden", "gone", "near", "far"

Pair = tuple[str, str]
"""The server and the name of a tool."""


@dataclass(frozen=True)
class Case:
    """One query, asked of one catalog."""

    signals: Callable[[dict[str, float]], Sequence[Signals]] | None
    """Of each passage, by the table of words; None if nothing was found."""
    shown: bool
    """A right tool is among the first hits."""
    first: bool
    """The first hit is right."""
    is_long: bool
    """It has several passages."""
    is_task: bool
    """It is a task description that somebody wrote."""
    is_everyday: bool
    """It is asked of the catalog of everyday requests."""
    foreign: str = ""
    """Whence it is known that nothing serves it; empty of the set's own queries."""

    @property
    def serviceable(self) -> bool:
        return not self.foreign

    @property
    def is_far(self) -> bool:
        """Nothing that serves it was taken away, and it names no product that is connected."""
        return bool(self.foreign) and self.foreign not in (HIDDEN, GONE, NEAR)


class Asked:
    """A catalog that can be searched, by vectors, too, if there is an embedding."""

    def __init__(
        self,
        catalog: Catalog,
        descriptions: dict[ServerName, str],
        embedding: Embedding | None,
        *,
        is_everyday: bool = False,
    ) -> None:
        self._is_everyday = is_everyday
        self._catalog = catalog
        self._descriptions = descriptions
        self._embedding = embedding
        self._vectors = embedding.of(catalog) if embedding else None
        # Both have the examples of `overrides`, not the shipped ones.
        self._searcher = build_searcher(catalog, SearchSettings(), descriptions=descriptions)

    def without(self, gone: Container[Pair]) -> Asked:
        parts = (
            ServerPart(
                p.server, tuple(e for e in p.entries if (e.key.server, e.key.tool) not in gone)
            )
            for p in self._catalog.parts.values()
        )
        return Asked(
            Catalog.of(parts), self._descriptions, self._embedding, is_everyday=self._is_everyday
        )

    def tools_of(self, servers: Container[str]) -> set[Pair]:
        return {(e.tool.server, e.tool.name) for e in self._catalog if e.tool.server in servers}

    def case(
        self,
        query: str,
        right: Container[Pair] = (),
        *,
        foreign: str = "",
        is_task: bool = False,
    ) -> Case:
        similarities = self._similarities(query)
        analyzed = self._searcher.analyze(query)
        hits = self._searcher.search(
            analyzed, limit=FIRST, accepts=lambda _: True, similarities=similarities
        )
        # What the vectors say does not depend on the table: keep that, and not all cosines.
        measure = self._searcher.assessor.signals
        answer = measure(analyzed, hits, {}, similarities)[0].answer if hits else None

        def signals(table: dict[str, float]) -> Sequence[Signals]:
            return [replace(one, answer=answer) for one in measure(analyzed, hits, table)]

        found = [(h.entry.key.server, h.entry.key.tool) in right for h in hits]
        return Case(
            signals if hits else None,
            shown=any(found),
            first=any(found[:1]),
            is_long=len(split_passages(query)) > 1,
            is_task=is_task,
            is_everyday=self._is_everyday,
            foreign=foreign,
        )

    def _similarities(self, query: str) -> Similarities | None:
        if self._embedding is None or self._vectors is None:
            return None
        return self._embedding.compare(self._vectors, query)


def ask(folder: Path, root: Path, embedding: Embedding | None) -> list[Case]:
    """All queries for one catalog of the known sets."""
    catalog, descriptions = read_catalog(folder)
    asked = Asked(catalog, descriptions, embedding)
    own = [
        Request(q["query"], frozenset(map(tuple, q["relevant"])))
        for q in lines(folder / "queries.jsonl")
    ]
    foreign = dict(foreign_queries(folder.name, root))
    by_hand = written_by_hand()
    found = [asked.case(*one) for one in own[:: max(1, len(own) // MOST)]]
    found += [asked.case(text, foreign=kind) for text, kind in foreign.items()]
    found += [asked.case(*one, foreign=WRITTEN) for one in by_hand]
    found += long_cases(asked, folder.name, own, [*map(Request, foreign), *by_hand])
    if len(catalog) < MOST_TOOLS:
        short = [one for one in own if len(split_passages(one.text)) == 1]
        found += hidden(asked, short[:: max(1, len(short) // MOST_HIDDEN)])
    report(folder.name, found)
    return found


def long_cases(
    asked: Asked, name: str, served: Sequence[Request], unserved: Sequence[Request]
) -> Iterator[Case]:
    """Long requests made of short ones, and task descriptions."""
    for one in long_requests(served, MOST_LONG, f"{name} served"):
        yield asked.case(*one)
    for one in long_requests(unserved, MOST_LONG, f"{name} unserved"):
        yield asked.case(*one, foreign=MADE)
    for task in lines(TASKS):
        if task["kind"] == "physical" or task["catalog"] == name:
            right = frozenset(map(tuple, task["right"]))
            kind = "" if right else TASK
            yield asked.case(task["request"], right, foreign=kind, is_task=True)


def foreign_queries(name: str, root: Path) -> Iterator[tuple[str, str]]:
    """The queries of other sets that nothing in this one serves, with whence that is known."""
    known = {
        (one["from"], number)
        for one in lines(UNSERVICEABLE / "judged.jsonl")
        if one["catalog"] == name
        for number in one["none"]
    }
    for pick in lines(UNSERVICEABLE / "foreign.jsonl"):
        if pick["catalog"] == name:
            texts = {q["id"]: q["query"] for q in lines(root / pick["from"] / "queries.jsonl")}
            for number in pick["ids"]:
                yield texts[number], READ if (pick["from"], number) in known else PICKED


def written_by_hand() -> list[Request]:
    written = (UNSERVICEABLE / "by_hand.txt").read_text(encoding="utf-8").splitlines()
    return [Request(q) for q in written if not q.startswith("#")]


def ask_everyday(
    embeddings: Sequence[Embedding | None], *, with_examples: bool
) -> dict[str, list[Case]]:
    """The development set of everyday requests, by the servers whose tools are right.

    Of several embeddings each request is asked with the one that learnt nothing of its server
    (`scripts/model/folds.json`), and one that nothing serves with each in turn.
    """
    catalog, descriptions = everyday.read_catalog("development", with_examples=with_examples)
    asked = [Asked(catalog, descriptions, one, is_everyday=True) for one in embeddings]
    half_of = json.loads(HALVES.read_text(encoding="utf-8"))
    fold_of = {server: n % FOLDS for n, server in enumerate(sorted(descriptions, key=_shuffled))}
    folds: dict[str, list[Case]] = {f"{EVERYDAY} {n}": [] for n in range(FOLDS)}
    served: defaultdict[tuple[str, int], list[Request]] = defaultdict(list)
    far: defaultdict[tuple[str, int], list[Request]] = defaultdict(list)
    for n, one in enumerate(lines(everyday.FOLDER / "development.jsonl")):
        request = Request(one["query"], frozenset(map(tuple, one["relevant"])))
        servers = [server for server, _ in one["relevant"]]
        fold = f"{EVERYDAY} {fold_of[servers[0]] if servers else n % FOLDS}"
        half = (majority([half_of[server] for server in servers]) if servers else n) % len(asked)
        folds[fold].append(asked[half].case(*request, foreign=one["unserved"]))
        if servers:
            served[fold, half].append(request)
        elif one["unserved"] == FAR:
            far[fold, half].append(request)
    for n, one in enumerate(written_by_hand()):
        fold, half = f"{EVERYDAY} {n % FOLDS}", n // FOLDS % len(asked)
        folds[fold].append(asked[half].case(*one, foreign=WRITTEN))
        far[fold, half].append(one)
    for (fold, half), some in served.items():
        folds[fold].extend((*hidden(asked[half], some), *gone(asked[half], some[::4])))
        folds[fold].extend(long_cases(asked[half], fold, some, far[fold, half]))
        report(fold, folds[fold])
    return folds


def majority(values: Sequence[int]) -> int:
    return Counter(values).most_common(1)[0][0]


def hidden(asked: Asked, requests: Sequence[Request]) -> Iterator[Case]:
    """Requests whose right tools are taken away, while those beside them stay."""
    shuffled = random.Random(len(requests)).sample(requests, len(requests))
    for start in range(0, len(shuffled), AT_ONCE):
        some = shuffled[start : start + AT_ONCE]
        rest = asked.without(frozenset[Pair]().union(*(one.right for one in some)))
        for one in some:
            yield rest.case(one.text, foreign=HIDDEN)


def gone(asked: Asked, requests: Sequence[Request]) -> Iterator[Case]:
    """Requests whose right tools are taken away with all of their servers."""
    for start in range(0, len(requests), AT_ONCE // 4):
        some = requests[start : start + AT_ONCE // 4]
        servers = {server for one in some for server, _ in one.right}
        rest = asked.without(asked.tools_of(servers))
        for one in some:
            yield rest.case(one.text, foreign=GONE)


def report(name: str, found: Sequence[Any]) -> None:
    print(f"asked {name}: {len(found)}", file=sys.stderr, flush=True)


def _shuffled(server: str) -> float:
    return random.Random(server).random()
