"""How task descriptions fare, as agents hand them on: found, answered, or told that nothing fits.

    python benchmarks/task_descriptions.py FOLDER [--aside] [--embedder MODEL --vectors FOLDER]

FOLDER holds the sets that `relevance.py` reads; the texts are in `benchmarks/long_requests`.
`tasks.jsonl` has a part in fitting the confidence, `aside.jsonl` (`--aside`) has none: whoever
changes the confidence must not look at it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from relevance import embedding_of, lines, read_catalog

from discovery_engine.config.settings import SearchSettings
from discovery_engine.search.searcher import Searcher, build_searcher
from discovery_engine.search.vectors import Similarities

HERE = Path(__file__).parent / "long_requests"
FIRST, THRESHOLD = 5, SearchSettings().min_confidence


@dataclass(frozen=True)
class Outcome:
    rank: int | None
    """Of the first right tool among the first five, from 0; None if there is none."""
    is_none: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--aside", action="store_true", help="the set that nothing was fitted to")
    parser.add_argument("--embedder", help="as `relevance.py` takes it")
    parser.add_argument("--vectors", type=Path, default=Path("vectors"), help="where they are kept")
    options = parser.parse_args()
    tasks = lines(HERE / ("aside.jsonl" if options.aside else "tasks.jsonl"))
    embedding = embedding_of(options.embedder, options.vectors) if options.embedder else None
    outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
    for name in sorted({task["catalog"] for task in tasks}):
        catalog, descriptions = read_catalog(options.folder / name)
        searcher = build_searcher(catalog, SearchSettings(), descriptions=descriptions)
        vectors = embedding.of(catalog) if embedding else None

        def similarities(text: str, vectors: object = vectors) -> Similarities | None:
            return embedding.similarities(vectors, text) if embedding and vectors else None

        for task in tasks:
            if task["catalog"] == name:
                outcomes[task["kind"]].append(outcome(task, searcher, similarities))
    show(outcomes)


def outcome(
    task: dict, searcher: Searcher, similarities: Callable[[str], Similarities | None]
) -> Outcome:
    query, similar = searcher.analyze(task["request"]), similarities(task["request"])
    hits = searcher.search(query, limit=FIRST, accepts=lambda _: True, similarities=similar)
    right = {tuple(pair) for pair in task["right"]}
    found = [(hit.entry.tool.server, hit.entry.tool.name) in right for hit in hits]
    confidence = searcher.assess(query, hits, similar).confidence
    return Outcome(found.index(True) if True in found else None, confidence < THRESHOLD)


def show(outcomes: dict[str, list[Outcome]]) -> None:
    served = outcomes.pop("served")
    found = [one for one in served if one.rank is not None]
    print(f"served: {len(served)}, right tool first {sum(one.rank == 0 for one in found)}")
    print(f"  in five {len(found)}, of these told none {sum(one.is_none for one in found)}")
    for kind, others in sorted(outcomes.items()):
        print(f"unserved, {kind}: {len(others)}, told none {sum(one.is_none for one in others)}")


if __name__ == "__main__":
    main()
