"""Fit when the first hit of a search is a match, and show how well it tells right from wrong.

    python scripts/fit_first_hit.py [--more FOLDER ...] [--write]

The cases are the everyday requests of `benchmarks/everyday`, as people type them and as agents do,
with the shipped requests, without them, and of servers without beside servers with them; each as it
is, and with its right tools hidden: what comes first then is a near miss. `--more` adds other sets,
in the form that `benchmarks/everyday.py --columns` reads.

The table shows, for thresholds on the log odds, the share of served requests that are a match, of
these how many are right, and the matches among requests that nothing serves; by models that saw no
request for the same server. The offset that is written lets `NEAR` of the near requests of servers
without shipped requests pass, and that of servers with them as many.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import everyday  # noqa: E402
from fit_confidence import newton  # noqa: E402
from manifest import digests, record  # noqa: E402

from discovery_engine.search.assessment import default_idf  # noqa: E402
from discovery_engine.search.query.retrieval import NameMatchKind  # noqa: E402
from discovery_engine.search.ranking.confidence import (  # noqa: E402
    FIRST_HIT_FILE,
    FirstHitModel,
    first_hit_features,
)
from discovery_engine.search.searcher import Searcher  # noqa: E402
from discovery_engine.tools.model import ToolKey  # noqa: E402

NAMES = FirstHitModel.__struct_fields__
WEIGHTS = {"served": 1.0, "hidden": 0.35, "near": 2.0, "far": 0.5}
INPUTS = ("catalog.jsonl.gz", "development.jsonl", "rewritten.jsonl", "servers.jsonl")
FOLDS = 5
NEAR = 0.1  # of the near requests that may be a match


class Case(NamedTuple):
    features: tuple[float, ...]
    is_right: bool
    kind: str
    column: str
    server: str
    """For the folds: that of the right tool, or the request."""

    @property
    def has_examples(self) -> bool:
        return bool(self.features[NAMES.index("examples")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--more", nargs="*", type=Path, default=[], help="folders of other sets")
    parser.add_argument("--write", action="store_true", help="keep the coefficients")
    options = parser.parse_args()
    cases = [
        case
        for column in everyday.all_columns(options.more)
        for catalog, descriptions, lacking in column.searched
        for searcher in [
            everyday.Asked(catalog, descriptions, everyday.PartialBook(lacking=lacking)).searcher
        ]
        for who, requests in column.requests.items()
        for request in requests
        if column.has(request, lacking)
        for case in cases_of(searcher, request, f"{column.name} {column.kind} {who}")
    ]
    scores = judged(cases)
    show(cases, scores)
    values = regression(cases)
    values[-1] -= threshold(cases, scores, has_examples=False)
    values[NAMES.index("examples")] -= threshold(cases, scores, has_examples=True) - threshold(
        cases, scores, has_examples=False
    )
    table = {name: round(float(value), 4) for name, value in zip(NAMES, values, strict=True)}
    print("\ncoefficients", table)
    if options.write:
        lines = ["# Written by scripts/fit_first_hit.py", *(f"{n} {v}" for n, v in table.items())]
        FIRST_HIT_FILE.write_text("\n".join([*lines, ""]), encoding="utf-8")
        inputs = digests([everyday.FOLDER / name for name in INPUTS], ROOT)
        metrics = {"near": NEAR}
        record(FIRST_HIT_FILE, script="scripts/fit_first_hit.py", inputs=inputs, metrics=metrics)


def cases_of(searcher: Searcher, request: dict, column: str) -> Iterator[Case]:
    """The request as it is and, if some tool serves it, with the right tools hidden."""
    right = {ToolKey(server, tool) for server, tool in request["relevant"]}
    query = searcher.analyze(request["query"])
    for hidden in (frozenset(), right) if right else (frozenset(),):
        hits = searcher.search(query, limit=10, accepts=lambda e, h=hidden: e.key not in h)
        if not hits or searcher.assessor.name_match(query, hits[0]).kind is not NameMatchKind.NONE:
            continue
        signals = searcher.assessor.signals(query, hits, default_idf())
        kind = "hidden" if hidden else "served" if right else request["unserved"]
        server = request["relevant"][0][0] if right else request["id"]
        features = first_hit_features(signals[0])
        is_right = not hidden and hits[0].entry.key in right
        yield Case((*features, 1.0), is_right, kind, column, server)


def regression(cases: Sequence[Case]) -> np.ndarray:
    x = np.array([case.features for case in cases])
    y = np.array([float(case.is_right) for case in cases])
    w = np.array([WEIGHTS[case.kind] for case in cases])
    return newton(x, y, w, 0.0)


def judged(cases: Sequence[Case]) -> np.ndarray:
    """The log odds of each case by a model that saw no request for its server."""
    fold = np.array([zlib.crc32(case.server.encode()) % FOLDS for case in cases])
    x = np.array([case.features for case in cases])
    scores = np.zeros(len(cases))
    for number in range(FOLDS):
        others = [case for case, own in zip(cases, fold, strict=True) if own != number]
        scores[fold == number] = x[fold == number] @ regression(others)
    return scores


def threshold(cases: Sequence[Case], scores: np.ndarray, *, has_examples: bool) -> float:
    """The log odds that `NEAR` of the near requests exceed."""
    near = [
        score
        for case, score in zip(cases, scores, strict=True)
        if case.kind == "near" and ("shipped" in case.column) is has_examples
    ]
    return float(np.quantile(near, 1 - NEAR))


def show(cases: Sequence[Case], scores: np.ndarray) -> None:
    columns = np.array([case.column for case in cases])
    kinds = np.array([case.kind for case in cases])
    right = np.array([case.is_right for case in cases])
    print("log odds above: match of served / right of these / near / hidden / far")
    for column in dict.fromkeys(columns):
        own = columns == column
        print(f"\n{column}")
        for bar in np.arange(-1.5, 1.6, 0.5):
            match = own & (scores > bar)
            served = match & (kinds == "served")
            figures = [
                served.sum() / (own & (kinds == "served")).sum(),
                right[served].mean(),
                *(
                    (match & (kinds == k)).sum() / (own & (kinds == k)).sum()
                    for k in ("near", "hidden", "far")
                ),
            ]
            print(f"{bar:5.1f}  " + "  ".join(f"{figure:.3f}" for figure in figures))


if __name__ == "__main__":
    main()
