"""Fit the confidence of search on sets of real queries, and show how far it holds.

    python scripts/fit_confidence.py FOLDER [--examples] [--write | --write-idf]
    python scripts/fit_confidence.py FOLDER [--examples] --embedder MODEL [HALF HALF] [--write]

FOLDER holds the sets that `benchmarks/relevance.py` reads; with them stand the everyday requests of
`benchmarks/everyday`. Each catalog is asked its own queries, queries of other sets that nothing in
it serves, requests that no tool serves (`benchmarks/unserviceable`), and its own queries with their
right tools hidden: what comes first then is a near miss. Right is an answer that has one of the
query's right tools among its first five. The sets weigh the same, the five parts of the everyday
requests twice as much as another; in each `SERVED` of the weight
is on queries that a tool serves, and of the others each kind weighs the same.

There are four models: `--examples` fits that of tools with examples of requests for them, on
everyday requests alone, since the tools of the other sets have none; `--embedder` fits that of
tools that are found by words and vectors. Run it again for each of them after a change of the
ranking, the words or the embedding model. Everyday requests are too similar to the tools of servers
whose typical requests a model was trained on: the model that ships with the program is followed by
those of both halves (`scripts/model/README.md`), and each of these requests is asked with the one
that saw nothing of its server.

The coefficients come from requests of one passage. What several passages change comes from long
ones: those that `scripts/long_requests.py` makes of both kinds, and task descriptions written for
one of the catalogs (`benchmarks/long_requests/tasks.jsonl`), of which those that ask for hands are
asked of every catalog.

`--write` keeps the coefficients, and refuses if FOLDER gives another table of inverse document
frequencies than the shipped one, which all models stand on. `--write-idf` keeps that table alone:
fit all models again after it. What was written from what stands in `data/manifest.json`.

All figures are of models that saw neither the set they judge nor any with its catalog; of everyday
requests neither those for the same servers. `--strict` judges these by models that saw no everyday
request at all. The table of words by which a set is measured owes nothing to its catalog. The model
that is written has seen all sets.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from confidence_cases import EVERYDAY, UNSERVICEABLE, Case, ask, ask_everyday  # noqa: E402
from confidence_report import THRESHOLD, Judged, case_weights, metrics_of, show  # noqa: E402
from everyday import FOLDER as REQUESTS  # noqa: E402
from long_requests import FRAMES, TASKS  # noqa: E402
from manifest import IDF, digest, digests, record  # noqa: E402
from relevance import embedding_of, read_catalog  # noqa: E402

from discovery_engine.catalog import Catalog  # noqa: E402
from discovery_engine.search.index.documents import build_documents  # noqa: E402
from discovery_engine.search.ranking.confidence import (  # noqa: E402
    ConfidenceModel,
    Signals,
    features,
    model_file,
)
from discovery_engine.search.text.lexicon import CONCEPT, SUBJECT, default_lexicon  # noqa: E402

NAMES = ConfidenceModel.__struct_fields__[: ConfidenceModel.__struct_fields__.index("offset")]
BY_VECTORS = ("similarity", "accord")
SCRIPT = "scripts/fit_confidence.py"
STEEPEST = 6.0  # log odds that long requests may differ from short ones by
WEIGHTS = {True: 2.0, False: 1.0}  # of a set, by whether it is of everyday requests
RIDGE = 0.02  # of the squares of coefficients, beside a weight of 1 for each set
RAREST = 3  # tools that say a word of the table
STEP = 0.05  # between the weights of the table
# Sets with the same catalog, or much of it: none judges another.
FAMILIES = ({"livemcp", "livemcp_steps", "livemcp_xl"}, {"livemcp_xl", "mcpflow"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", action="store_true", help="fit for tools with examples")
    parser.add_argument(
        "--embedder", nargs="+", default=[], help="models whose vectors to fit for, too"
    )
    parser.add_argument("--vectors", type=Path, default=Path("vectors"), help="where they are kept")
    parser.add_argument("--strict", action="store_true", help="judge all everyday requests unseen")
    written = parser.add_mutually_exclusive_group()
    written.add_argument("--write", action="store_true", help="keep the coefficients")
    written.add_argument("--write-idf", action="store_true", help="keep the table of words alone")
    options = parser.parse_args()
    folders = sorted(f for f in options.folder.iterdir() if (f / "queries.jsonl").exists())
    counts = {folder.name: word_counts(folder) for folder in folders}
    tables = Tables(counts)
    table = idf_lines(tables())
    if options.write_idf:
        write_idf(table, options.folder, folders)
        return
    if options.write and options.strict:
        sys.exit("--strict judges otherwise than the manifest says: write without it")
    if options.write and table != IDF.read_text(encoding="utf-8"):
        sys.exit(
            f"these sets give another {IDF.name}: keep it with --write-idf, then fit all models"
        )
    models = options.embedder
    whole, *halves = [embedding_of(model, options.vectors) for model in models] or (None,)
    cases = ask_everyday(halves or [whole], with_examples=options.examples)
    for folder in [] if options.examples else folders:
        cases[folder.name] = ask(folder, options.folder, whole)
    sets = {name: read(found, tables(name)) for name, found in cases.items()}
    fitter = Fitter(with_vectors=bool(models), with_examples=options.examples)
    judged = [fitter.judge(name, sets, strict=options.strict) for name in sets]
    show(judged)
    everything = fitter.fit(list(sets.values()))
    print("\ncoefficients", {n: round(v, 3) for n, v in vars_of(everything).items()})
    if options.write:
        file = model_file(with_vectors=bool(models), with_examples=options.examples)
        write(everything, file, inputs_of(options.folder, folders, models), metrics_of(judged))


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

    def __call__(self, stranger: str = "") -> dict[str, float]:
        """The table that owes nothing to the named set or its kin."""
        left = frozenset(name for name in self._counts if not is_kin(name, stranger))
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


class Read(NamedTuple):
    """A case, measured by one table of words."""

    case: Case
    signals: Sequence[Signals]
    """Of each passage; none if nothing was found."""
    features: tuple[float, ...]
    """Of the first passage, with 1 for the offset."""


def read(cases: Iterable[Case], table: dict[str, float]) -> list[Read]:
    found = []
    for case in cases:
        signals = case.signals(table) if case.signals else ()
        found.append(Read(case, signals, (*features(signals[0]), 1.0) if signals else ()))
    return found


class Fitter:
    """Fits one of the four models."""

    def __init__(self, *, with_vectors: bool, with_examples: bool) -> None:
        self._with_vectors = with_vectors
        self._with_examples = with_examples

    def judge(
        self, name: str, sets: Mapping[str, Sequence[Read]], *, strict: bool = False
    ) -> Judged:
        """A set's cases by a model that saw nothing of the set or its kin."""
        others = [other for other in sets if not is_kin(name, other)]
        if strict and name.startswith(EVERYDAY):
            others = [other for other in others if not other.startswith(EVERYDAY)]
        model = self.fit([sets[other] for other in others])
        return Judged(name, confidences(sets[name], model), [one.case for one in sets[name]])

    def fit(self, sets: Sequence[Sequence[Read]]) -> ConfidenceModel:
        """By the requests of one passage; what several of them change, by the long ones."""
        short = [[one for one in found if not one.case.is_long] for found in sets]
        long = [[one for one in found if one.case.is_long and one.signals] for found in sets]
        model = self._regression(short)
        return fit_long(model, short, [found for found in long if found])

    def _regression(self, sets: Sequence[Sequence[Read]]) -> ConfidenceModel:
        found = [one for reads in sets for one in reads if one.signals]
        weights = [
            WEIGHTS[reads[0].case.is_everyday] * case_weights([one.case for one in reads])
            for reads in sets
        ]
        kept = [np.array([bool(one.signals) for one in reads]) for reads in sets]
        x = np.array([one.features for one in found])
        y = np.array([float(one.case.shown) for one in found])
        w = np.concatenate([w[k] for w, k in zip(weights, kept, strict=True)])
        used = np.array([self._with_vectors or name not in BY_VECTORS for name in NAMES] + [True])
        values = np.zeros(len(used))
        values[used] = held_above_zero(x[:, used], y, w)
        named = dict(zip(NAMES, map(float, values[:-1]), strict=True))
        offset = float(values[-1])
        return ConfidenceModel(**named, offset=offset, second=0.0, passages=0.0, long_offset=0.0)


def fit_long(
    model: ConfidenceModel, short: Sequence[Sequence[Read]], long: Sequence[Sequence[Read]]
) -> ConfidenceModel:
    """The shares of the second passage and of their number by regression, the offset by aim.

    With that offset as large a share of the long requests that nothing serves is refused, at the
    shipped threshold, as of the short ones; of these the far ones, as hardly any long one is near.
    """
    two = [
        [sorted(map(model.log_odds, signals), reverse=True) for _, signals, _ in found]
        for found in long
    ]
    x = np.array([(odds[1], -math.log(len(odds)), 1.0) for found in two for odds in found])
    y = np.array([float(one.case.shown) for found in long for one in found])
    known = np.array([odds[0] for found in two for odds in found])
    w = case_weights([one.case for found in long for one in found])
    second, passages, _ = held_above_zero(x, y, w, known)
    odds = np.split(known + x[:, 0] * second + x[:, 1] * passages, np.cumsum(list(map(len, two))))
    unserved = [
        those[[not one.case.serviceable for one in found]]
        for those, found in zip(odds, long, strict=False)
    ]
    far = [[one for one in found if one.case.is_far] for found in short]
    aim = macro(confidences(found, model) < THRESHOLD for found in far)
    bar = math.log(THRESHOLD / (1 - THRESHOLD))
    low, high = -STEEPEST, STEEPEST
    for _ in range(20):
        middle = (low + high) / 2
        if macro(those + middle < bar for those in unserved) > aim:
            low = middle
        else:
            high = middle
    return replace(model, second=float(second), passages=float(passages), long_offset=high)


def macro(sets: Iterable[np.ndarray]) -> float:
    """The mean over the sets of a share."""
    return float(np.mean([share.mean() for share in sets if len(share)]))


def confidences(found: Sequence[Read], model: ConfidenceModel) -> np.ndarray:
    return np.array([model.probability(s) if s else 0.0 for _, s, _ in found])


def held_above_zero(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, known: np.ndarray | float = 0.0
) -> np.ndarray:
    """Logistic regression whose coefficients, but for the last, are not below 0."""
    free = np.ones(x.shape[1], dtype=bool)
    while True:
        found = np.zeros(len(free))
        found[free] = newton(x[:, free], y, w, known)
        if (found[:-1] >= 0).all():
            return found
        free[np.argmin(found[:-1])] = False  # one at a time: without it others may rise above 0


def newton(x: np.ndarray, y: np.ndarray, w: np.ndarray, known: np.ndarray | float) -> np.ndarray:
    """Logistic regression by Newton's method; `known` are log odds that each case begins with."""
    b = np.zeros(x.shape[1])
    ridge = np.full(len(b), RIDGE)
    ridge[-1] = 1e-9
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(known + x @ b, -30, 30)))
        bend = (x * (w * p * (1 - p))[:, None]).T @ x
        b -= np.linalg.solve(bend + np.diag(ridge), x.T @ (w * (p - y)) + ridge * b)
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


def inputs_of(root: Path, folders: Sequence[Path], models: Sequence[str]) -> dict[str, str]:
    """The digests of the sets, of the requests that nothing serves, and of the sentence models."""
    sets = digests((file for folder in folders for file in folder.glob("*.jsonl")), root)
    everyday = (
        REQUESTS / name
        for name in ("development.jsonl", "catalog.jsonl.gz", "typical_requests.jsonl.gz")
    )
    requests = digests((*UNSERVICEABLE.glob("*"), FRAMES, TASKS, *everyday), ROOT)
    used = {
        f"{folder.name}/{file.name}": digest(file)
        for folder in (Path(model.removeprefix("minilm:")) for model in models)
        for name in ("model.onnx", "tokenizer.json")
        for file in folder.rglob(name)
    }
    return sets | requests | used | {IDF.name: digest(IDF)}


if __name__ == "__main__":
    main()
