"""The cases that the confidence of search is fitted on: requests, each asked of one catalog."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from long_requests import TASKS, Request, long_requests  # noqa: E402
from pick_unserviceable import Encoder  # noqa: E402
from relevance import lines, read_catalog  # noqa: E402

from discovery_engine.catalog import Catalog  # noqa: E402
from discovery_engine.config.settings import SearchSettings  # noqa: E402
from discovery_engine.search.embedding_text import embedding_text  # noqa: E402
from discovery_engine.search.query.clauses import split_clauses  # noqa: E402
from discovery_engine.search.query.query_passages import split_passages  # noqa: E402
from discovery_engine.search.ranking.confidence import FIRST, Signals  # noqa: E402
from discovery_engine.search.searcher import Searcher, build_searcher  # noqa: E402
from discovery_engine.search.vectors import Similarities, Vectors, pack  # noqa: E402

UNSERVICEABLE = ROOT / "benchmarks" / "unserviceable"
MOST = 250  # queries of one set
MOST_LONG = 100  # long ones, and as many that nothing serves
PICKED, READ, WRITTEN, MADE, TASK = "picked", "read", "written", "made", "task"


@dataclass(frozen=True)
class Case:
    """One query, asked of one catalog."""

    signals: Callable[[dict[str, float]], Sequence[Signals]] | None
    """Of each passage, by the table of words; None if nothing was found."""
    shown: bool
    """A right tool is among the first hits."""
    is_long: bool
    """It has several passages."""
    is_task: bool
    """It is a task description that somebody wrote."""
    foreign: str = ""
    """Whence it is known that nothing serves it; empty of the set's own queries."""

    @property
    def serviceable(self) -> bool:
        return not self.foreign


def ask(folder: Path, root: Path, encoder: Encoder | None) -> list[Case]:
    """All queries for one catalog."""
    catalog, descriptions = read_catalog(folder)
    searcher = build_searcher(catalog, SearchSettings(), descriptions=descriptions)
    case = partial(answered, Asked(searcher, catalog, encoder))
    asked = lines(folder / "queries.jsonl")
    own = [Request(q["query"], frozenset(map(tuple, q["relevant"]))) for q in asked]
    found = [case(*one) for one in own[:: max(1, len(own) // MOST)]]
    found += [case(*one) for one in long_requests(own, MOST_LONG, f"{folder.name} served")]
    known = {
        (one["from"], number)
        for one in lines(UNSERVICEABLE / "judged.jsonl")
        if one["catalog"] == folder.name
        for number in one["none"]
    }
    unserved = []
    for pick in lines(UNSERVICEABLE / "foreign.jsonl"):
        if pick["catalog"] == folder.name:
            texts = {q["id"]: q["query"] for q in lines(root / pick["from"] / "queries.jsonl")}
            for number in pick["ids"]:
                kind = READ if (pick["from"], number) in known else PICKED
                found.append(case(texts[number], foreign=kind))
                unserved.append(Request(texts[number]))
    written = (UNSERVICEABLE / "by_hand.txt").read_text(encoding="utf-8").splitlines()
    by_hand = [Request(q) for q in written if not q.startswith("#")]
    found += [case(*one, foreign=WRITTEN) for one in by_hand]
    made = long_requests([*unserved, *by_hand], MOST_LONG, f"{folder.name} unserved")
    found += [case(*one, foreign=MADE) for one in made]
    for task in lines(TASKS):
        if task["kind"] == "physical" or task["catalog"] == folder.name:
            right = frozenset(map(tuple, task["right"]))
            foreign = "" if right else TASK
            found.append(case(task["request"], right, foreign=foreign, is_task=True))
    print(f"asked {folder.name}: {len(found)}", file=sys.stderr, flush=True)
    return found


class Asked:
    """A catalog that can be searched, by vectors, too, if there is an encoder."""

    def __init__(self, searcher: Searcher, catalog: Catalog, encoder: Encoder | None) -> None:
        self.searcher = searcher
        self._encoder = encoder
        if encoder:
            tools = [entry.tool for entry in catalog]
            self._vectors = Vectors(
                tools, list(map(pack, encoder.rows(list(map(embedding_text, tools)))))
            )

    def similarities(self, query: str) -> Similarities | None:
        if not self._encoder:
            return None
        return self._vectors.compare(self._encoder.rows([query, *split_clauses(query)]))


def answered(
    asked: Asked,
    query: str,
    right: Container[tuple[str, str]] = (),
    *,
    foreign: str = "",
    is_task: bool = False,
) -> Case:
    similarities = asked.similarities(query)
    searcher = asked.searcher
    analyzed = searcher.analyze(query)
    hits = searcher.search(analyzed, limit=FIRST, accepts=lambda _: True, similarities=similarities)
    # What the vectors say does not depend on the table: keep that, and not all cosines.
    measure = searcher.assessor.signals
    similarity = measure(analyzed, hits, {}, similarities)[0].similarity if hits else None

    def signals(table: dict[str, float]) -> Sequence[Signals]:
        return [replace(one, similarity=similarity) for one in measure(analyzed, hits, table)]

    return Case(
        signals if hits else None,
        shown=any((hit.entry.tool.server, hit.entry.tool.name) in right for hit in hits),
        is_long=len(split_passages(query)) > 1,
        is_task=is_task,
        foreign=foreign,
    )
