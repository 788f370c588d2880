"""How far the confidence of search holds: the operating curve, losses, and reliability by set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from confidence_cases import PICKED, READ, WRITTEN, Case

from discovery_engine.config.settings import SearchSettings

THRESHOLD = SearchSettings().min_confidence
POINTS = (0.7, 0.8, 0.85, 0.9, 0.95)  # shares of unserviceable queries to be told none
LOSSES = (0.01, 0.03, 0.05, 0.1)


@dataclass(frozen=True)
class Judged:
    """The cases of a set with their confidence."""

    name: str
    confidence: np.ndarray
    cases: Sequence[Case]

    def part(self, *, is_long: bool) -> Judged:
        """Of the long requests alone, or of the others."""
        chosen = self.column("is_long") == is_long
        cases = [case for case, is_chosen in zip(self.cases, chosen, strict=True) if is_chosen]
        return Judged(self.name, self.confidence[chosen], cases)

    def column(self, field: str) -> np.ndarray:
        return np.array([getattr(case, field) for case in self.cases])

    def none_rate(self, threshold: float, kind: str = "") -> float:
        """The share of unserviceable queries, or of a kind of them, that are told none."""
        kinds = self.column("foreign")
        asked = kinds == kind if kind else kinds != ""
        return float((self.confidence[asked] < threshold).mean()) if asked.any() else math.nan

    def loss(self, threshold: float) -> float:
        """The share of queries with a right tool among the first hits that are told none."""
        found = self.column("shown")
        return float((self.confidence[found] < threshold).mean())

    def weights(self) -> np.ndarray:
        return halved(self.column("serviceable"))


def halved(served: np.ndarray) -> np.ndarray:
    """Weights that add up to one half on either side."""
    return np.where(served, 0.5 / served.sum(), 0.5 / (~served).sum())


def show(judged: Sequence[Judged]) -> None:
    short = [one.part(is_long=False) for one in judged]
    show_curve(short)
    show_sets(short, threshold_for(short, lambda j, t: j.none_rate(t), 0.9))
    show_reliability(short)
    print("\nlong requests")
    show_sets([one.part(is_long=True) for one in judged], THRESHOLD)
    print(f"task descriptions alone: {tasks_of(judged)}")
    print("short ones at the same threshold")
    show_sets(short, THRESHOLD)


def tasks_of(judged: Sequence[Judged]) -> str:
    """How those fared that were written for a catalog, by a model that saw neither."""
    told = [
        (case, confidence < THRESHOLD)
        for one in judged
        for case, confidence in zip(one.cases, one.confidence, strict=True)
        if case.is_task
    ]
    lost = [none for case, none in told if case.shown]
    refused = [none for case, none in told if not case.serviceable]
    return (
        f"{sum(lost)} of {len(lost)} that were found are lost, "
        f"{sum(refused)} of {len(refused)} that nothing serves are told none"
    )


def macro(judged: Sequence[Judged], measure: Callable[[Judged], float]) -> float:
    return float(np.nanmean([measure(one) for one in judged]))


def threshold_for(
    judged: Sequence[Judged], measure: Callable[[Judged, float], float], share: float
) -> float:
    """The least threshold at which the measure, which rises with it, reaches a share."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if macro(judged, lambda one: measure(one, middle)) < share:  # noqa: B023
            low = middle
        else:
            high = middle
    return high


def show_curve(judged: Sequence[Judged]) -> None:
    print("the operating curve, mean of the sets")
    print("threshold   none (picked,   read, written)    loss")
    thresholds = [threshold_for(judged, lambda j, t: j.none_rate(t), p) for p in POINTS]
    thresholds += [threshold_for(judged, lambda j, t: j.loss(t), p) for p in LOSSES]
    for t in sorted(thresholds):
        rates = [
            macro(judged, lambda j, kind=kind: j.none_rate(t, kind))  # noqa: B023
            for kind in ("", PICKED, READ, WRITTEN)
        ]
        loss = macro(judged, lambda j: j.loss(t))  # noqa: B023
        print("{:9.3f}  {:5.1%} ({:6.1%}, {:6.1%}, {:6.1%})  {:6.1%}".format(t, *rates, loss))


def show_sets(judged: Sequence[Judged], threshold: float) -> None:
    print(f"\nset              n  none   loss  brier    ece   (none below {threshold:.3f})")
    for one in judged:
        rates = f"{one.none_rate(threshold):5.1%} {one.loss(threshold):6.1%}"
        print(f"{one.name:14s} {len(one.cases):4d} {rates} {brier(one):6.3f} {ece([one]):6.3f}")
    print(f"mean of sets{'':14s} {macro(judged, brier):12.3f}; all together ece {ece(judged):.3f}")


def show_reliability(judged: Sequence[Judged]) -> None:
    print("\nconfidence   share of answers   mean   a right one among the first")
    for low, share, said, held in bins(judged):
        bar = "#" * round(40 * held)
        print(f"{low:.1f} - {low + 0.1:.1f}   {share:16.1%}   {said:.2f}   {held:.2f} {bar}")


def brier(one: Judged) -> float:
    return float((one.weights() * (one.confidence - one.column("shown")) ** 2).sum())


def ece(judged: Sequence[Judged]) -> float:
    """How far confidence is off on average, in ten bins."""
    return sum(share * abs(said - held) for _, share, said, held in bins(judged))


def bins(judged: Sequence[Judged]) -> Iterable[tuple[float, float, float, float]]:
    confidence = np.concatenate([one.confidence for one in judged])
    right = np.concatenate([one.column("shown") for one in judged])
    weights = np.concatenate([one.weights() for one in judged]) / len(judged)
    for number in range(10):
        chosen = np.minimum((confidence * 10).astype(int), 9) == number
        if weight := weights[chosen].sum():
            said, held = (weights[chosen] @ v[chosen] / weight for v in (confidence, right))
            yield number / 10, float(weight), float(said), float(held)


def metrics_of(judged: Sequence[Judged]) -> dict[str, float]:
    """Means of the sets, at the shipped threshold; of short requests but for those named `long`."""
    short, long = ([one.part(is_long=is_long) for one in judged] for is_long in (False, True))
    return {
        "threshold": THRESHOLD,
        "none": macro(short, lambda one: one.none_rate(THRESHOLD)),
        "loss": macro(short, lambda one: one.loss(THRESHOLD)),
        "brier": macro(short, brier),
        "ece": ece(short),
        "long none": macro(long, lambda one: one.none_rate(THRESHOLD)),
        "long loss": macro(long, lambda one: one.loss(THRESHOLD)),
    }
