"""How far the confidence of search holds: operating points, and reliability by set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from confidence_cases import EVERYDAY, FAR, GONE, HIDDEN, NEAR, PICKED, READ, WRITTEN, Case

from discovery_engine.config.settings import SearchSettings

THRESHOLD = SearchSettings().min_confidence
SERVED = 0.6  # of the weight of a set; of everyday requests three quarters are
POINTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9)
KINDS = (NEAR, HIDDEN, GONE, FAR, PICKED, READ, WRITTEN)


@dataclass(frozen=True)
class Judged:
    """The cases of a set with their confidence."""

    name: str
    confidence: np.ndarray
    cases: Sequence[Case]

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        confidence = np.concatenate([one.confidence for one in parts])
        return cls(parts[0].name, confidence, [case for one in parts for case in one.cases])

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
        return share(self.confidence[asked] < threshold)

    def loss(self, threshold: float) -> float:
        """The share of queries with a right tool among the first hits that are told none."""
        return share(self.confidence[self.column("shown")] < threshold)

    def match_rate(self, threshold: float) -> float:
        """The share of the set's own queries at the threshold or above."""
        return share(self.confidence[self.column("serviceable")] >= threshold)

    def first_right(self, threshold: float) -> float:
        """The share of these whose first hit is right."""
        chosen = self.column("serviceable") & (self.confidence >= threshold)
        return share(self.column("first")[chosen])

    def weights(self) -> np.ndarray:
        return case_weights(self.cases)


def share(chosen: np.ndarray) -> float:
    return float(chosen.mean()) if len(chosen) else math.nan


def case_weights(cases: Sequence[Case]) -> np.ndarray:
    """`SERVED` on those that some tool serves, the rest alike on each kind of the others."""
    kinds = [case.foreign for case in cases]
    counts = Counter(kinds)
    others = max(len(counts) - 1, 1)
    weights = {k: (1 - SERVED) / others / n if k else SERVED / n for k, n in counts.items()}
    return np.array([weights[kind] for kind in kinds])


def show(judged: Sequence[Judged]) -> None:
    short = [one.part(is_long=False) for one in judged]
    everyday = [one for one in short if one.name.startswith(EVERYDAY)]
    known = [one for one in short if not one.name.startswith(EVERYDAY)]
    for name, sets in (("everyday requests", [Judged.joined(everyday)]), ("known sets", known)):
        if sets:
            show_points(name, sets)
            show_reliability(sets)
    if known:
        show_sets(known, THRESHOLD)
        print("\nlong requests")
        show_sets([one.part(is_long=True) for one in judged if EVERYDAY not in one.name], THRESHOLD)
        print(f"task descriptions alone: {tasks_of(judged)}")


def show_points(name: str, judged: Sequence[Judged]) -> None:
    """What a threshold between decisions does: above it, and what it loses."""
    print(f"\n{name}: with at least this confidence, and found ones below it")
    print("  point   lost  served  first right | " + " ".join(f"{k:>7s}" for k in KINDS))
    for t in POINTS:
        figures = [macro(judged, lambda j: measure(j, t)) for measure in MEASURES]  # noqa: B023
        others = [1 - macro(judged, lambda j: j.none_rate(t, kind)) for kind in KINDS]  # noqa: B023
        print(
            "{:7.2f} {:6.1%} {:7.1%} {:12.1%} | ".format(t, *figures)
            + " ".join(f"{one:7.1%}" for one in others)
        )


MEASURES = (Judged.loss, Judged.match_rate, Judged.first_right)


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
    values = [value for one in judged if not math.isnan(value := measure(one))]
    return float(np.mean(values)) if values else math.nan


def show_sets(judged: Sequence[Judged], threshold: float) -> None:
    judged = [one for one in judged if one.cases]
    if not judged:
        return
    print(f"\nset              n  none   loss  brier    ece   (none below {threshold:.3f})")
    for one in judged:
        rates = f"{one.none_rate(threshold):5.1%} {one.loss(threshold):6.1%}"
        print(f"{one.name:14s} {len(one.cases):4d} {rates} {brier(one):6.3f} {ece([one]):6.3f}")
    print(f"mean of sets{'':14s} {macro(judged, brier):12.3f}; all together ece {ece(judged):.3f}")


def show_reliability(judged: Sequence[Judged]) -> None:
    print("\nconfidence   share of answers   mean   a right one among the first")
    for low, part, said, held in bins(judged):
        bar = "#" * round(40 * held)
        print(f"{low:.1f} - {low + 0.1:.1f}   {part:16.1%}   {said:.2f}   {held:.2f} {bar}")
    print(f"ece {ece(judged):.3f}, brier {macro(judged, brier):.3f}")


def brier(one: Judged) -> float:
    return float((one.weights() * (one.confidence - one.column("shown")) ** 2).sum())


def ece(judged: Sequence[Judged]) -> float:
    """How far confidence is off on average, in ten bins."""
    return sum(part * abs(said - held) for _, part, said, held in bins(judged))


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
    """At the shipped threshold: of everyday requests, and means of the known sets."""
    short = [one.part(is_long=False) for one in judged]
    everyday = [Judged.joined([one for one in short if one.name.startswith(EVERYDAY)])]
    known = [one for one in short if not one.name.startswith(EVERYDAY)]
    long = [one for one in (one.part(is_long=True) for one in judged) if len(one.cases)]
    found = {"threshold": THRESHOLD}
    for name, sets in (("everyday", everyday), ("known", known), ("long", long)):
        if sets:
            found[f"{name} none"] = macro(sets, lambda one: one.none_rate(THRESHOLD))
            found[f"{name} loss"] = macro(sets, lambda one: one.loss(THRESHOLD))
            found[f"{name} brier"] = macro(sets, brier)
            found[f"{name} ece"] = ece(sets)
    return found
