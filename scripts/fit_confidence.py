"""Fit the confidence of search on sets of real queries, and show how far it holds.

    python scripts/fit_confidence.py FOLDER [--model MODEL] [--write | --write-idf]

FOLDER holds the sets that `benchmarks/relevance.py` reads. Each catalog is asked its own queries,
queries of other sets that nothing in it serves, and requests that no tool serves
(`benchmarks/unserviceable`). Right is an answer that has one of the query's right tools among its
first five. Every set weighs the same, and in each half of the weight is on queries that a tool
serves.

The coefficients come from requests of one passage. What several passages change comes from long
ones: those that `scripts/long_requests.py` makes of both kinds, and task descriptions written for
one of the catalogs (`benchmarks/long_requests/tasks.jsonl`), of which those that ask for hands are
asked of every catalog.

With MODEL, the folder of a sentence model in ONNX form, the confidence of tools that are found by
words and vectors is fitted. Mind that most queries of other sets were picked with such a model:
they are easier for it than they should be, unlike those that were read or written by hand.

`--write` keeps the coefficients, and refuses if FOLDER gives another table of inverse document
frequencies than the shipped one, which both models stand on. `--write-idf` keeps that table alone:
fit both models again after it. What was written from what stands in `data/manifest.json`.

All figures are of models that saw neither the set they judge nor any with its catalog, in their
coefficients or in their table of words. The model that is written has seen all sets. A set's cases
are always judged with a table that its own catalog has no part in, since an owner's has none.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from confidence_cases import UNSERVICEABLE, Case, ask  # noqa: E402
from confidence_report import THRESHOLD, Judged, halved, metrics_of, show  # noqa: E402
from long_requests import FRAMES, TASKS  # noqa: E402
from manifest import DATA, IDF, digest, digests, record  # noqa: E402
from pick_unserviceable import Encoder  # noqa: E402
from relevance import read_catalog  # noqa: E402

from discovery_engine.catalog import Catalog  # noqa: E402
from discovery_engine.search.index.documents import build_documents  # noqa: E402
from discovery_engine.search.ranking.confidence import ConfidenceModel, Signals, features  # noqa: E402
from discovery_engine.search.text.lexicon import CONCEPT, SUBJECT, default_lexicon  # noqa: E402

NAMES = ("fit", "asked", "pair", "several", "missed", "strange", "size", "similarity")
SCRIPT = "scripts/fit_confidence.py"
STEEPEST = 6.0  # log odds that long requests may differ from short ones by
RAREST = 3  # tools that say a word of the table
STEP = 0.05  # between the weights of the table
# Sets with the same catalog, or much of it: none judges another.
FAMILIES = ({"livemcp", "livemcp_steps", "livemcp_xl"}, {"livemcp_xl", "mcpflow"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, help="fit for vectors of this model, too")
    written = parser.add_mutually_exclusive_group()
    written.add_argument("--write", action="store_true", help="keep the coefficients")
    written.add_argument("--write-idf", action="store_true", help="keep the table of words alone")
    options = parser.parse_args()
    folders = sorted(f for f in options.folder.iterdir() if (f / "queries.jsonl").exists())
    counts = {folder.name: word_counts(folder) for folder in folders}
    table = idf_lines(Tables(counts)())
    if options.write_idf:
        write_idf(table, options.folder, folders)
        return
    if options.write and table != IDF.read_text(encoding="utf-8"):
        sys.exit(
            f"these sets give another {IDF.name}: keep it with --write-idf, then fit both models"
        )
    encoder = Encoder(options.model) if options.model else None
    cases = {folder.name: ask(folder, options.folder, encoder) for folder in folders}
    tables = Tables(counts)
    judged = [judge(name, cases, tables) for name in cases]
    show(judged)
    everything = fit([read(found, tables(name)) for name, found in cases.items()])
    print("\ncoefficients", {n: round(v, 3) for n, v in vars_of(everything).items()})
    if options.write:
        file = "confidence_with_vectors.txt" if encoder else "confidence.txt"
        inputs = {**inputs_of(options.folder, folders, options.model), IDF.name: digest(IDF)}
        write(everything, DATA / file, inputs, metrics_of(judged))


def word_counts(folder: Path) -> Counter[str]:
    """How many different tools of a set say each word; `` counts the tools."""
    catalog, _ = read_catalog(folder)
    return Counter(word for document in distinct(catalog) for word in ("", *document))


def distinct(catalog: Catalog) -> Iterable[frozenset[str]]:
    """The words of each tool without its server's; tools that say the same are one."""
    tools = {(e.tool.name, e.tool.description): e.tool for e in catalog}.values()
    lexicon = default_lexicon()
    for document in build_documents(tools, "", "", lexicon):
        yield frozenset(t for t in document if not t.startswith((CONCEPT, SUBJECT)))


def table_of(counts: Iterable[Counter[str]]) -> dict[str, float]:
    """What it tells that a tool says a word, in steps."""
    total = sum(counts, Counter())
    tools = total.pop("")
    return {
        word: round(STEP * round((1 - math.log(count) / math.log(tools)) / STEP), 2)
        for word, count in total.items()
        if count >= RAREST
    }


def is_kin(one: str, other: str) -> bool:
    return one == other or any({one, other} <= family for family in FAMILIES)


class Tables:
    """What words tell, counted without the sets that a catalog is kin to."""

    def __init__(self, counts: dict[str, Counter[str]]) -> None:
        self._counts = counts
        self._made: dict[frozenset[str], dict[str, float]] = {}

    def __call__(self, *strangers: str) -> dict[str, float]:
        """The table that owes nothing to the named sets or their kin."""
        left = frozenset(
            name for name in self._counts if not any(is_kin(name, one) for one in strangers)
        )
        if left not in self._made:
            self._made[left] = table_of(self._kin_apart(left))
        return self._made[left]

    def _kin_apart(self, names: Iterable[str]) -> list[Counter[str]]:
        """The counts without those of sets whose catalog is counted already, or in a larger one."""
        kept: list[str] = []
        for name in sorted(names, key=lambda n: (-self._counts[n][""], n)):
            if not any(is_kin(name, other) for other in kept):
                kept.append(name)
        return [self._counts[name] for name in kept]


Read = tuple[Case, Sequence[Signals]]
"""A case with its signals by one table: of each passage; none if nothing was found."""


def read(cases: Iterable[Case], table: dict[str, float]) -> list[Read]:
    return [(case, case.signals(table) if case.signals else ()) for case in cases]


def judge(name: str, cases: dict[str, list[Case]], tables: Tables) -> Judged:
    """A set's cases by a model that saw nothing of the set or its kin."""
    others = [other for other in cases if not is_kin(name, other)]
    model = fit([read(cases[other], tables(name, other)) for other in others])
    confidence = [confidence_of(signals, model) for _, signals in read(cases[name], tables(name))]
    print(f"judged {name}", file=sys.stderr, flush=True)
    return Judged(name, np.array(confidence), cases[name])


def confidence_of(signals: Sequence[Signals], model: ConfidenceModel) -> float:
    return model.probability(signals) if signals else 0.0


def fit(sets: Sequence[Sequence[Read]]) -> ConfidenceModel:
    """By the requests of one passage; what several of them change, by the long ones."""
    short = [[one for one in found if not one[0].is_long] for found in sets]
    long = [[one for one in found if one[0].is_long] for found in sets]
    return fit_long(regression(short), short, long)


def fit_long(
    model: ConfidenceModel, short: Sequence[Sequence[Read]], long: Sequence[Sequence[Read]]
) -> ConfidenceModel:
    """The shares of the second passage and of their number by regression, the offset by aim.

    With that offset as large a share of the long requests that nothing serves is refused, at the
    shipped threshold, as of the short ones.
    """
    odds = [
        (case, sorted(map(model.log_odds, signals), reverse=True))
        for found in long
        for case, signals in found
        if signals
    ]
    x = np.array([(two[1], -math.log(len(two)), 1.0) for _, two in odds])
    y = np.array([float(case.shown) for case, _ in odds])
    known = np.array([two[0] for _, two in odds])
    w = halved(np.array([case.serviceable for case, _ in odds]))
    second, passages, _ = held_above_zero(x, y, w, known)
    model = replace(model, second=second, passages=passages)
    aim = macro_none(short, model)
    low, high = -STEEPEST, STEEPEST
    for _ in range(20):
        middle = (low + high) / 2
        if macro_none(long, replace(model, long_offset=middle)) > aim:
            low = middle
        else:
            high = middle
    return replace(model, long_offset=high)


def macro_none(sets: Sequence[Sequence[Read]], model: ConfidenceModel) -> float:
    """The share of requests that nothing serves which are told none, as the mean of the sets."""
    return float(
        np.mean(
            [
                np.mean(
                    [
                        confidence_of(signals, model) < THRESHOLD
                        for case, signals in found
                        if not case.serviceable
                    ]
                )
                for found in sets
            ]
        )
    )


def regression(sets: Sequence[Sequence[Read]]) -> ConfidenceModel:
    found = [one for reads in sets for one in reads if one[1]]
    weights = [halved(np.array([case.serviceable for case, _ in reads])) for reads in sets]
    kept = [np.array([bool(signals) for _, signals in reads]) for reads in sets]
    x = np.array([(*features(signals[0]), 1.0) for _, signals in found])
    y = np.array([float(case.shown) for case, _ in found])
    w = np.concatenate([w[k] for w, k in zip(weights, kept, strict=True)])
    *values, offset = held_above_zero(x, y, w)
    named = dict(zip(NAMES, values, strict=True))
    return ConfidenceModel(**named, offset=offset, second=0.0, passages=0.0, long_offset=0.0)


def held_above_zero(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, known: np.ndarray | float = 0.0
) -> list[float]:
    """Coefficients of a logistic model; but for the last, the offset, none is below 0."""
    free = np.ones(x.shape[1], dtype=bool)
    while True:
        found = np.zeros(len(free))
        found[free] = newton(x[:, free], y, w, known)
        if (found[:-1] >= 0).all():
            return list(map(float, found))
        free[:-1] &= found[:-1] >= 0


def newton(x: np.ndarray, y: np.ndarray, w: np.ndarray, known: np.ndarray | float) -> np.ndarray:
    """Logistic regression by Newton's method; `known` are log odds that each case begins with."""
    b = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(known + x @ b, -30, 30)))
        bend = (x * (w * p * (1 - p))[:, None]).T @ x
        b -= np.linalg.solve(bend + 1e-9 * np.eye(len(b)), x.T @ (w * (p - y)))
    return b


def vars_of(model: ConfidenceModel) -> dict[str, float]:
    return {name: getattr(model, name) for name in ConfidenceModel.__struct_fields__}


def idf_lines(table: dict[str, float]) -> str:
    """The table of words as it is shipped: a line for each weight."""
    by_weight: dict[float, list[str]] = {}
    for word, weight in table.items():
        by_weight.setdefault(weight, []).append(word)
    rows = (f"{w} {' '.join(sorted(words))}\n" for w, words in sorted(by_weight.items()))
    return f"# Written by {SCRIPT}\n" + "".join(rows)


def write_idf(table: str, root: Path, folders: Sequence[Path]) -> None:
    IDF.write_text(table, encoding="utf-8")
    catalogs = digests((folder / "catalog.jsonl" for folder in folders), root)
    words = sum(len(line.split()) - 1 for line in table.splitlines()[1:])
    record(IDF, script=SCRIPT, inputs=catalogs, metrics={"words": words})


def write(
    model: ConfidenceModel, file: Path, inputs: dict[str, str], metrics: dict[str, float]
) -> None:
    coefficients = (f"{name} {value:.4f}\n" for name, value in vars_of(model).items())
    file.write_text(f"# Written by {SCRIPT}\n" + "".join(coefficients), encoding="utf-8")
    record(file, script=SCRIPT, inputs=inputs, metrics=metrics)


def inputs_of(root: Path, folders: Sequence[Path], model: Path | None) -> dict[str, str]:
    """The digests of the sets, of the requests that nothing serves, and of the sentence model."""
    sets = digests((file for folder in folders for file in folder.glob("*.jsonl")), root)
    requests = digests((*UNSERVICEABLE.glob("*"), FRAMES, TASKS), ROOT)
    files = [*model.rglob("model.onnx"), *model.rglob("tokenizer.json")] if model else []
    return sets | requests | {file.name: digest(file) for file in files}


if __name__ == "__main__":
    main()
