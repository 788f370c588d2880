"""Fit the prices of the token estimate to what real tokenizers count, and show the errors.

    python scripts/fit_token_prices.py FOLDER [--tools N]

FOLDER holds the development sets that `benchmarks/relevance.py` reads. The texts are definitions,
signatures, descriptions and names of N tools of each set, and the sentences in other languages of
`benchmarks/tokens.py`, which also has the tokenizers (`scripts/node_tools.py` brings them).

The prices are found by least squares over the relative errors, against the mean of the tokenizers;
none is below 0. The table has the shipped prices beside the fitted ones, and the mean error of one
text and of all texts together with either: where they hardly differ, the shipped ones are right.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from relevance import read_catalog  # noqa: E402
from tokens import SENTENCES, compact, counted  # noqa: E402

from discovery_engine.agent import budget  # noqa: E402
from discovery_engine.tools.signature import signature  # noqa: E402

_IN_UNITS = {
    **budget._PRICES,  # noqa: SLF001
    "long word": budget._LONG_WORD[1],  # noqa: SLF001
    "endless word": budget._ENDLESS_WORD[1],  # noqa: SLF001
    "long mark": budget._LONG_MARK[1],  # noqa: SLF001
    "accent": budget._ACCENT,  # noqa: SLF001
}
SHIPPED = {name: price / budget.UNITS for name, price in _IN_UNITS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tools", type=int, default=50, help="of each set, evenly taken")
    options = parser.parse_args()
    texts = sorted(set(filter(None, texts_of(options.folder, options.tools))))
    real = np.array([sum(counts) / len(counts) for counts in counted(texts)])
    x = np.array([[row[name] for name in SHIPPED] for row in map(features, texts)])
    fitted = least_squares(x / real[:, None], np.ones(len(real)))
    show(x, real, dict(zip(SHIPPED, fitted, strict=True)))


def texts_of(folder: Path, count: int) -> Iterator[str]:
    yield from (sentence for sentences in SENTENCES.values() for sentence in sentences)
    for one in sorted(f for f in folder.iterdir() if (f / "catalog.jsonl").exists()):
        tools = [entry.tool for entry in read_catalog(one)[0]]
        for tool in tools[:: max(1, len(tools) // count)]:
            yield from (compact(tool.definition), signature(tool), tool.description, str(tool.key))


def features(text: str) -> Counter[str]:
    """How often the estimate charges each of its prices for a text."""
    found: Counter[str] = Counter()
    for piece in budget._PIECES.finditer(text):  # noqa: SLF001
        kind = piece.lastgroup or "rest"
        found[kind] += 1
        if kind == "word":
            found["long word"] += beyond(piece, budget._LONG_WORD)  # noqa: SLF001
            found["endless word"] += beyond(piece, budget._ENDLESS_WORD)  # noqa: SLF001
            found["accent"] += sum(letter > "\x7f" for letter in piece[0])
        elif kind == "mark":
            found["long mark"] += beyond(piece, budget._LONG_MARK)  # noqa: SLF001
    return found


def beyond(piece: re.Match[str], allowance: tuple[int, float]) -> int:
    return max(0, len(piece[0]) - allowance[0])


def least_squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The solution without negative prices; the most negative one is taken out first."""
    free = np.ones(x.shape[1], dtype=bool)
    while True:
        found = np.zeros(len(free))
        found[free] = np.linalg.lstsq(x[:, free], y, rcond=None)[0]
        if (found >= 0).all():
            return found
        free[found.argmin()] = False


def show(x: np.ndarray, real: np.ndarray, fitted: Mapping[str, float]) -> None:
    print(f"{'price':14s} {'shipped':>8s} {'fitted':>8s} {'pieces':>8s}")
    for (name, price), pieces in zip(SHIPPED.items(), x.sum(axis=0), strict=True):
        print(f"{name:14s} {price:8.2f} {fitted[name]:8.2f} {pieces:8.0f}")
    for label, prices in (("shipped", SHIPPED), ("fitted", fitted)):
        print(f"{label}: {errors(x, real, list(prices.values()))} over {len(real)} texts")


def errors(x: np.ndarray, real: np.ndarray, prices: Sequence[float]) -> str:
    estimated = np.ceil(x @ np.array(prices))
    mean = np.abs(estimated / real - 1).mean()
    return (
        f"mean error of a text {mean:.1%}, of all together {estimated.sum() / real.sum() - 1:+.1%}"
    )


if __name__ == "__main__":
    main()
