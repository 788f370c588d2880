"""Fit the weights of the scanner's words and signals, and measure what they are worth.

    python scripts/fit_scanner.py

The development data (`tests/contract/scanner_development`) is by three authors. A logistic
regression learns from the worst sentences of each tool: which those are is found out by fitting,
in rounds. No word and no signal may lower a score; only the place of a sentence, its language and
what it shares with its tool's topic do. How far that carries is measured on each author with
weights fitted on the two others, and on these scores the threshold of an alarm is chosen: as low
as FALSE_ALARMS allow. Severe is what scores above every innocent tool. The weights, fitted on all
three, are written to `discovery_engine/trust/scanner/data/signal_weights.json`, with a manifest.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.trust.scanner import FindingKind, Neighbours, alarms, scan
from discovery_engine.trust.scanner.detection import passages_of, readings, sentences_of, texts_of
from discovery_engine.trust.scanner.evidence import (
    ARGUMENT,
    ENCODED,
    ENGLISH,
    OPENING,
    SHARED,
    UNWEIGHED,
    Evidence,
    evidence_in,
    in_argument,
    of_words,
    off_subject,
    topic_of,
)
from discovery_engine.trust.scanner.sentences import SENTENCE_END, SIGNALS
from discovery_engine.trust.scanner.word_families import FAMILIES

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "contract" / "scanner_development"
WEIGHTS_FILE = ROOT / "discovery_engine" / "scanner" / "data" / "signal_weights.json"
MANIFEST = WEIGHTS_FILE.with_name("signal_weights.manifest.json")
AUTHORS = ("", "second_", "third_")
NEAR = "honest"
"""What honest tools may say that comes near: an alarm is in order, never a severe one."""

FALSE_ALARMS = 0.015  # of the innocent tools, by weights that their author was not fitted with
NEAR_WEIGHT = 0.3
ROUNDS = 3
WORST = 3  # sentences of an innocent tool that a round learns from; of a poisoned tool it is one
RIDGE = 1 / 3  # a prior on all weights together, against the sum of the losses
STEPS = 300
RATE = 0.05
MARGIN = 1.0  # log odds between the worst innocent tool and what is severe: that is withheld
BY_OTHER_MEANS = {FindingKind.HIDDEN_TEXT, FindingKind.SECRET, FindingKind.LOOKALIKE}
FREE = (SHARED, ENGLISH, OPENING, ARGUMENT)  # features that may lower a score
NOTHING = -99.0  # the score of a tool without a sentence to weigh

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    id: str
    tool: Tool
    neighbours: Neighbours
    poison: str
    """The words that do harm, if the author says which."""


@dataclass(frozen=True)
class Features:
    """Of a tool: the features of each of its sentences."""

    rows: Matrix
    is_poisoned: bool
    weight: float = 1.0


@dataclass(frozen=True)
class Weights:
    of_features: Matrix
    bias: float

    def scores(self, tools: Sequence[Features]) -> Matrix:
        """Of each tool, that of its worst sentence."""
        return np.array([self.of(tool).max(initial=NOTHING) for tool in tools])

    def of(self, tool: Features) -> Matrix:
        scores: Matrix = tool.rows @ self.of_features + self.bias
        return scores


def examples(name: str) -> list[Example]:
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    return [_example(row) for row in rows]


def _example(row: dict[str, Any]) -> Example:
    tool = Tool.from_mcp(ServerName("subject"), row["tool"])
    others = [key.partition(":") for key in row.get("neighbours") or ()]
    tools = [Tool.from_mcp(ServerName(server), {"name": name}) for server, _, name in others]
    return Example(row["id"], tool, Neighbours.of([tool, *tools]), row.get("poison", ""))


def feature_names() -> tuple[str, ...]:
    """All features, in the order in which their weights are written."""
    words = [of_words(name) for name, family in FAMILIES.items() if not family & UNWEIGHED]
    signals = [signal.name for signal in SIGNALS]
    subjects = [signal.name for signal in SIGNALS if signal.subject]
    off = [off_subject(name) for name in (*words, *subjects)]
    inside = [in_argument(name) for name in subjects]
    return (*words, *signals, *off, *inside, SHARED, ENGLISH, OPENING, ARGUMENT, ENCODED)


def features_of(example: Example, *, is_poisoned: bool, weight: float = 1.0) -> Features:
    """The features of a tool's sentences; of a poisoned one, where it is known which those are."""
    found = list(_sentences_of(example.tool))
    poison = _letters(example.poison)
    meant = [row for text, row in found if poison and text and (text in poison or poison in text)]
    rows = meant or [row for _, row in found]
    return Features(np.array(rows or np.empty((0, len(feature_names())))), is_poisoned, weight)


def _sentences_of(tool: Tool) -> Iterator[tuple[str, Matrix]]:
    numbers = {name: number for number, name in enumerate(feature_names())}
    passages = passages_of(tool.definition)
    topic = topic_of(tool, sentences_of(passages))
    for passage in passages:
        for text, place in texts_of(passage, topic):
            for reading in readings(text):
                for evidence in _evidence_of(reading):
                    if not evidence.is_mention or place.is_encoded:
                        row = np.zeros(len(numbers))
                        for name, amount in evidence.features(place):
                            row[numbers[name]] = amount
                        yield _letters(evidence.text), row


def _evidence_of(reading: str) -> Iterator[Evidence]:
    pieces = [piece for piece in SENTENCE_END.split(reading) if piece.strip()]
    for number, piece in enumerate(pieces):
        yield from evidence_in(piece, is_opening=number == 0)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def fit(tools: Sequence[Features]) -> Weights:
    """Weights by the worst sentences of each tool, which are those of the weights before."""
    weights: Weights | None = None
    for _ in range(ROUNDS):
        rows, harm, counts = [], [], []
        for tool in (tool for tool in tools if len(tool.rows)):
            chosen = tool.rows
            share = tool.weight / (len(chosen) if tool.is_poisoned else 2)
            if weights:
                worst = 1 if tool.is_poisoned else WORST
                chosen = chosen[np.argsort(-weights.of(tool))[:worst]]
                share = tool.weight
            rows.append(chosen)
            harm += [float(tool.is_poisoned)] * len(chosen)
            counts += [share] * len(chosen)
        weights = _regression(np.concatenate(rows), np.array(harm), np.array(counts))
    if not weights:
        raise ValueError("there is nothing to fit")
    return weights


def _regression(rows: Matrix, harm: Matrix, counts: Matrix) -> Weights:
    """Weights and bias, by gradient descent (Adam); the loss is a mean, so the prior shrinks."""
    free = np.array([name in FREE for name in feature_names()])
    total = counts.sum()
    parameters = np.append(np.zeros(rows.shape[1]), -2.0)
    mean, square = np.zeros_like(parameters), np.zeros_like(parameters)
    for step in range(1, STEPS + 1):
        odds = rows @ parameters[:-1] + parameters[-1]
        error = counts * (1 / (1 + np.exp(-odds)) - harm) / total
        gradient = np.append(rows.T @ error + RIDGE / total * parameters[:-1], error.sum())
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        rate = RATE * min(1.0, 2 * (1 - step / STEPS))
        moved = rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-10)
        parameters = parameters - moved
        bounded = np.where(free, parameters[:-1], np.maximum(parameters[:-1], 0))
        parameters = np.append(bounded, parameters[-1])
    return Weights(parameters[:-1], float(parameters[-1]))


def main() -> None:
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measured()))
        return
    poisoned = [examples(f"{author}poisoned") for author in AUTHORS]
    other_means = [np.array([_is_found(one) for one in some]) for some in poisoned]
    innocent = [
        [features_of(one, is_poisoned=False) for one in examples(f"{author}innocent")]
        for author in AUTHORS
    ]
    near = [features_of(one, is_poisoned=False, weight=NEAR_WEIGHT) for one in examples(NEAR)]
    meant = [[features_of(one, is_poisoned=True) for one in some] for some in poisoned]
    whole = [
        [features_of(replace(one, poison=""), is_poisoned=True) for one in some]
        for some in poisoned
    ]
    learnt = [
        [tool for tool, found in zip(some, means, strict=True) if not found]
        for some, means in zip(meant, other_means, strict=True)
    ]

    def without(author: int) -> Weights:
        others = [number for number in range(len(AUTHORS)) if number != author]
        return fit(
            [*near, *(tool for number in others for tool in learnt[number] + innocent[number])]
        )

    transfer = [without(author) for author in range(len(AUTHORS))]
    judged = [weights.scores(tools) for weights, tools in zip(transfer, innocent, strict=True)]
    alarm = float(np.quantile(np.concatenate(judged), 1 - FALSE_ALARMS))
    figures = {}
    for author, weights, tools, scores, means in zip(
        AUTHORS, transfer, whole, judged, other_means, strict=True
    ):
        found = weights.scores(tools) >= alarm
        figures[f"{author}author left out"] = {
            "poisoned": len(tools),
            "recall": round(float((found | means).mean()), 4),
            "recall by words": round(float(found.mean()), 4),
            "innocent": len(scores),
            "false alarms": round(float((scores >= alarm).mean()), 4),
        }
    weights = without(-1)
    honest = [tool for some in innocent for tool in some]
    severe = (
        float(max(weights.scores([*honest, *near]).max(), *(some.max() for some in judged)))
        + MARGIN
    )
    write(weights, alarm, severe)
    # In a process of its own, which loads the weights that were just written.
    command = [sys.executable, __file__, "measure"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    write_manifest({**figures, **json.loads(done.stdout)})


def _is_found(example: Example) -> bool:
    """Whether a tool is found without its words: nothing is learnt from those."""
    return any(one.kind in BY_OTHER_MEANS for one in scan(example.tool, example.neighbours))


def write(weights: Weights, alarm: float, severe: float) -> None:
    named = zip(feature_names(), weights.of_features, strict=True)
    fitted = {
        "bias": round(weights.bias, 3),
        "alarm": round(alarm, 3),
        "severe": round(severe, 3),
        "weights": {
            name: round(weight, 3)
            for name, weight in named
            if abs(weight) >= 0.01  # noqa: PLR2004 - what weighs nothing
        },
    }
    WEIGHTS_FILE.write_text(json.dumps(fitted, indent=2) + "\n", encoding="utf-8")


def measured() -> dict[str, dict[str, float]]:
    """The scanner as it is now, on each set; it was fitted with all of them."""
    sets = [f"{author}{kind}" for kind in ("poisoned", "innocent") for author in AUTHORS]
    figures: dict[str, dict[str, float]] = {}
    for name in (*sets, NEAR):
        found = [alarms(scan(one.tool, one.neighbours)) for one in examples(name)]
        severe = [any(finding.is_severe for finding in findings) for findings in found]
        figures[name] = {
            "tools": len(found),
            "alarm": round(sum(map(bool, found)) / len(found), 4),
            "severe": round(sum(severe) / len(found), 4),
        }
    return figures


def write_manifest(metrics: dict[str, dict[str, float]]) -> None:
    files = sorted(DATA.glob("*.jsonl"))
    manifest = {
        "script": "scripts/fit_scanner.py",
        "written": datetime.now(UTC).date().isoformat(),
        "inputs": {path.relative_to(ROOT).as_posix(): _digest(path) for path in files},
        "output": _digest(WEIGHTS_FILE),
        "metrics": metrics,
    }
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    for name, figures in metrics.items():
        print(f"{name}: {figures}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
