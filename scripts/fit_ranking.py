"""Show what each constant of the ranking is worth: NDCG@10 at its value, and beside it.

    python scripts/fit_ranking.py FOLDER [--limit N] [--steps 0.75,1.25] [--only NAME,NAME]
    python scripts/fit_ranking.py FOLDER --embedder MODEL --vectors FOLDER

FOLDER holds the development sets that `benchmarks/relevance.py` reads. Each constant in turn is
multiplied by each of the steps, with all others as they are. The table has the macro NDCG@10 at the
constant's value, and how much that changes at each step, in ten-thousandths. A constant is well
chosen if no step gains anything; it is safe to leave where its line is flat.

The constants of the fusion with vectors are tried with an embedder only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from relevance import NDCG, embedding_of, measures, queries_of, read_catalog  # noqa: E402

from discovery_engine.catalog import Catalog  # noqa: E402
from discovery_engine.config.settings import SearchSettings  # noqa: E402
from discovery_engine.search.index import documents  # noqa: E402
from discovery_engine.search.index.documents import Field  # noqa: E402
from discovery_engine.search.query import analyzer  # noqa: E402
from discovery_engine.search.ranking import relevance  # noqa: E402
from discovery_engine.search.searcher import Searcher, build_searcher  # noqa: E402
from discovery_engine.search.vectors import Similarities  # noqa: E402
from discovery_engine.view import search_answers  # noqa: E402

DEPTH = 10


@dataclass(frozen=True)
class Constant:
    module: ModuleType
    name: str

    @property
    def is_of_index(self) -> bool:
        """Whether the index depends on it; otherwise only the analysis and ranking of a query."""
        return self.module is documents

    @property
    def value(self) -> float:
        value = getattr(self.module, self.name)
        return value.weight if isinstance(value, Field) else value

    @contextmanager
    def scaled(self, factor: float) -> Iterator[None]:
        before = getattr(self.module, self.name)
        is_field = isinstance(before, Field)
        after = replace(before, weight=before.weight * factor) if is_field else before * factor
        setattr(self.module, self.name, after)
        try:
            yield
        finally:
            setattr(self.module, self.name, before)


BY_WORDS = (
    Constant(analyzer, "_IDF_POWER"),
    Constant(analyzer, "CONCEPT_WEIGHT"),
    Constant(analyzer, "_SUBJECTS_WEIGHT"),
    Constant(analyzer, "_GUESS_WEIGHT"),
    Constant(analyzer, "_UNKNOWN_WEIGHT"),
    Constant(relevance, "_CLAUSE_SHARE"),
    Constant(relevance, "_SHORT_CLAUSE"),
    Constant(search_answers, "_TAIL"),
    Constant(documents, "_SATURATION"),
    Constant(documents, "_NAME_SHARE"),
    Constant(documents, "_NAME"),
    Constant(documents, "_SERVER"),
    Constant(documents, "_DESCRIPTION"),
    Constant(documents, "_SERVER_DESCRIPTION"),
    Constant(documents, "_PARAMETER_NAMES"),
    Constant(documents, "_PARAMETER_TEXTS"),
)
BY_VECTORS = (
    Constant(relevance, "_WEIGHT"),
    Constant(relevance, "_STEEPNESS"),
    Constant(relevance, "_LEAST_BEST"),
    Constant(relevance, "_LEAST_SPREAD"),
)


class DevelopmentSet:
    def __init__(
        self, folder: Path, limit: int, similarities: Callable[[Catalog], SimilaritiesOf]
    ) -> None:
        self._catalog, self._descriptions = read_catalog(folder)
        self._queries = queries_of(folder, limit)
        self._similarities = similarities(self._catalog)
        self._searcher = self._build()

    def ndcg(self, *, rebuilt: bool) -> float:
        """The mean of all queries; with the index built from scratch if `rebuilt`."""
        searcher = self._build() if rebuilt else self._searcher
        found = [self._measure(searcher, query) for query in self._queries]
        return sum(found) / len(found)

    def _build(self) -> Searcher:
        return build_searcher(self._catalog, SearchSettings(), descriptions=self._descriptions)

    def _measure(self, searcher: Searcher, query: dict) -> float:
        analyzed = searcher.analyze(query["query"])
        similarities = self._similarities(query["query"])
        hits = searcher.search(
            analyzed, limit=DEPTH, accepts=lambda _: True, similarities=similarities
        )
        least = search_answers._TAIL * hits[0].relevance if hits else 0.0  # noqa: SLF001
        found = [
            (hit.entry.tool.server, hit.entry.tool.name) for hit in hits if hit.relevance >= least
        ]
        return measures(found, {tuple(pair) for pair in query["relevant"]})[NDCG]


SimilaritiesOf = Callable[[str], Similarities | None]
"""The similarities of a set's tools to a query; none without an embedder."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="queries a set, evenly taken; 0: all")
    parser.add_argument("--steps", default="0.75,1.25", help="factors, joined by commas")
    parser.add_argument("--only", default="", help="names of constants, joined by commas")
    parser.add_argument("--embedder", help="as `relevance.py` takes it")
    parser.add_argument("--vectors", type=Path, default=Path("vectors"), help="where they are kept")
    options = parser.parse_args()
    constants = (*BY_WORDS, *BY_VECTORS) if options.embedder else BY_WORDS
    chosen = set(filter(None, options.only.split(",")))
    sets = read_sets(options)
    show(sets, [c for c in constants if not chosen or c.name in chosen], steps_of(options.steps))


def read_sets(options: argparse.Namespace) -> list[DevelopmentSet]:
    embedding = embedding_of(options.embedder, options.vectors) if options.embedder else None

    def similarities(catalog: Catalog) -> SimilaritiesOf:
        vectors = embedding.of(catalog) if embedding else None
        return lambda query: embedding.similarities(vectors, query) if embedding else None

    folders = sorted(f for f in options.folder.iterdir() if (f / "queries.jsonl").exists())
    return [DevelopmentSet(folder, options.limit, similarities) for folder in folders]


def steps_of(text: str) -> list[float]:
    return [float(step) for step in text.split(",")]


def show(
    sets: Sequence[DevelopmentSet], constants: Sequence[Constant], steps: Sequence[float]
) -> None:
    at_values = macro(sets, rebuilt=False)
    print(f"macro NDCG@10 of {len(sets)} sets: {at_values:.4f}; changes in 1/10,000")
    print(f"{'constant':20s} {'value':>6s} " + " ".join(f"{f'x {step:g}':>8s}" for step in steps))
    for constant in constants:
        changes = []
        for step in steps:
            with constant.scaled(step):
                changes.append(macro(sets, rebuilt=constant.is_of_index) - at_values)
        cells = " ".join(f"{10_000 * change:+8.0f}" for change in changes)
        print(f"{constant.name:20s} {constant.value:6.2f} {cells}", flush=True)


def macro(sets: Sequence[DevelopmentSet], *, rebuilt: bool) -> float:
    return sum(one.ndcg(rebuilt=rebuilt) for one in sets) / len(sets)


if __name__ == "__main__":
    main()
