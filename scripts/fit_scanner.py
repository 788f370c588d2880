"""Fit the weights of the scanner's signals, and measure what they are worth.

    python scripts/fit_scanner.py

The development data (`tests/contract/scanner_development`) is cut in two by a hash of each id. A
logistic regression is fitted on one half: a tool's score is that of its worst sentence, so each
step learns from the sentence that is worst at present. No signal may lower a score, and no place
raises one by itself but that of an encoded text. On the other half the threshold of an alarm is
chosen: as low as FALSE_ALARMS allow. Severe is what scores above every innocent tool of both
halves. The weights are written to `discovery_engine/scanner/signal_weights.py`, with a manifest
beside it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discovery_engine.scanner import FindingKind, Neighbours, alarms, scan
from discovery_engine.scanner.detection import readings, texts_of
from discovery_engine.scanner.evidence import evidence_in, feature_names, subject_of
from discovery_engine.scanner.passages import passages_of
from discovery_engine.tools.model import ServerName, Tool

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "contract" / "scanner_development"
WEIGHTS_FILE = ROOT / "discovery_engine" / "scanner" / "signal_weights.py"
MANIFEST = WEIGHTS_FILE.with_name("signal_weights.manifest.json")
POISONED = ("poisoned", "second_poisoned")
INNOCENT = ("innocent", "second_innocent")
NEAR = (
    "honest"  # what honest tools may say that comes near: an alarm is in order, never a severe one
)

FALSE_ALARMS = 0.015  # of the innocent tools of the half that chooses the threshold
NEAR_WEIGHT = 0.3
RIDGE = 0.0005
STEPS = 500
RATE = 0.05
MARGIN = 0.25  # log odds between the worst innocent tool and what is severe
BY_OTHER_MEANS = {FindingKind.HIDDEN_TEXT, FindingKind.SECRET, FindingKind.LOOKALIKE}
LOWEST = -1.0  # log odds that a place may lower a score by: orders may stand anywhere
LOWERS = ("opening", "argument")  # features that may lower a score, and do not raise one

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    id: str
    tool: Tool
    neighbours: Neighbours

    @property
    def is_for_fitting(self) -> bool:
        return hashlib.sha256(self.id.encode()).digest()[0] % 2 == 0


def examples(name: str) -> list[Example]:
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    return [_example(row) for row in rows]


def _example(row: dict[str, Any]) -> Example:
    tool = Tool.from_mcp(ServerName("subject"), row["tool"])
    others = [key.partition(":") for key in row.get("neighbours") or ()]
    tools = [Tool.from_mcp(ServerName(server), {"name": name}) for server, _, name in others]
    return Example(row["id"], tool, Neighbours.of([tool, *tools]))


def rows_of(example: Example) -> Matrix:
    """The features of each sentence of a tool that gives signals."""
    return np.array(list(_rows_of(example.tool)) or np.empty((0, len(feature_names()))))


def _rows_of(tool: Tool) -> Iterator[Matrix]:
    numbers = {name: number for number, name in enumerate(feature_names())}
    subject = subject_of(tool)
    for passage in passages_of(tool.definition):
        for text, place in texts_of(passage, subject):
            for reading in readings(text):
                for evidence in evidence_in(reading):
                    if not evidence.is_mention or place.is_encoded:
                        row = np.zeros(len(numbers))
                        row[[numbers[name] for name in evidence.features(place)]] = 1
                        yield row


def fit(tools: Sequence[Matrix], harm: Matrix, weight: Matrix) -> tuple[Matrix, float]:
    """Weights and bias, by gradient descent (Adam) on the worst sentence of each tool."""
    names = feature_names()
    lowers = np.array([name in LOWERS for name in names])
    parameters = np.append(np.where(lowers, -0.5, 0.5), -3.0)
    mean, square = np.zeros_like(parameters), np.zeros_like(parameters)
    for step in range(1, STEPS + 1):
        weights, bias = parameters[:-1], parameters[-1]
        worst = np.array([rows[np.argmax(rows @ weights)] for rows in tools])
        error = weight * (1 / (1 + np.exp(-(worst @ weights + bias))) - harm) / weight.sum()
        gradient = np.append(worst.T @ error + RIDGE * weights, error.sum())
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        parameters = parameters - RATE * (mean / (1 - 0.9**step)) / (
            np.sqrt(square / (1 - 0.99**step)) + 1e-8
        )
        bound = np.where(lowers, np.minimum(parameters[:-1], 0), np.maximum(parameters[:-1], 0))
        parameters = np.append(np.maximum(bound, LOWEST), parameters[-1])
    return parameters[:-1], float(parameters[-1])


def scores(tools: Sequence[Matrix], weights: Matrix, bias: float) -> Matrix:
    return np.array([(rows @ weights).max() + bias if len(rows) else -99.0 for rows in tools])


def main() -> None:
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measured()))
        return
    poisoned = [one for name in POISONED for one in examples(name)]
    innocent = [one for name in INNOCENT for one in examples(name)]
    near = [rows_of(one) for one in examples(NEAR)]
    learnt = [rows_of(one) for one in poisoned if one.is_for_fitting and not _is_found(one)]
    honest = [rows_of(one) for one in innocent if one.is_for_fitting]
    judged = [rows_of(one) for one in innocent if not one.is_for_fitting]
    groups = [(learnt, 1.0, 1.0), (honest, 0.0, 1.0), (near, 0.0, NEAR_WEIGHT)]
    tools = [rows for group, _, _ in groups for rows in group if len(rows)]
    sizes = [sum(1 for rows in group if len(rows)) for group, _, _ in groups]
    harm = np.repeat([harm for _, harm, _ in groups], sizes)
    weight = np.repeat([weight for _, _, weight in groups], sizes)
    weights, bias = fit(tools, harm, weight)
    alarm = float(np.quantile(scores(judged, weights, bias), 1 - FALSE_ALARMS))
    severe = float(scores([*judged, *honest, *near], weights, bias).max()) + MARGIN
    write(weights, bias, alarm, severe)
    # In a process of its own, which loads the weights that were just written.
    command = [sys.executable, __file__, "measure"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    write_manifest(json.loads(done.stdout))


def _is_found(example: Example) -> bool:
    """Whether a tool is found without its words: nothing is learnt from those."""
    return any(one.kind in BY_OTHER_MEANS for one in scan(example.tool, example.neighbours))


def write(weights: Matrix, bias: float, alarm: float, severe: float) -> None:
    lines = [
        '"""Weights of signals, in log odds. Written by scripts/fit_scanner.py: do not edit."""',
        "",
        f"BIAS = {bias:.3f}",
        f"ALARM = {alarm:.3f}",
        f"SEVERE = {severe:.3f}",
        "WEIGHTS = {",
        *(
            f'    "{name}": {weight:.3f},'
            for name, weight in zip(feature_names(), weights, strict=True)
            if abs(weight) >= 0.01  # noqa: PLR2004 - what weighs nothing
        ),
        "}",
    ]
    WEIGHTS_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measured() -> dict[str, dict[str, float]]:
    """The scanner as it is now, on each set and half."""
    figures: dict[str, dict[str, float]] = {}
    for name in (*POISONED, *INNOCENT, NEAR):
        halves = {"fit": True, "threshold": False}
        for half, is_for_fitting in halves.items():
            found = [
                alarms(scan(one.tool, one.neighbours))
                for one in examples(name)
                if one.is_for_fitting == is_for_fitting
            ]
            severe = [any(finding.is_severe for finding in findings) for findings in found]
            figures[f"{name}, {half} half"] = {
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
