"""The rankers of peers, asked the same queries as ours in the same run.

A file says what they are: its `BASELINES` are classes with `name`, `fit(catalog, servers)` and
`rank(query, k)`, which gives places in the catalog. One whose libraries or models are not there
is left out, and named.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEPTH = 10
LOSS = 0.01  # that is still level
OURS = "ours"

Rank = Callable[[str], list[int]]
Table = dict[str, dict[str, float]]  # by set, then by ranker


@dataclass
class Peers:
    """Rankers that could be set up so far."""

    rankers: list[type[Any]]

    @classmethod
    def of_file(cls, file: Path) -> Peers:
        sys.path.insert(0, str(file.parent))
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return cls(list(module.BASELINES))

    @property
    def names(self) -> list[str]:
        return [ranker.name for ranker in self.rankers]

    def fitted(self, catalog: list[dict], servers: list[dict]) -> dict[str, Rank]:
        """Each over a catalog; whoever cannot be is not asked again."""
        found: dict[str, Rank] = {}
        for kind in list(self.rankers):
            ranker = kind()
            try:
                ranker.fit(catalog, servers)
                ranker.rank("list files", DEPTH)
            except Exception as error:  # noqa: BLE001 - whatever a stranger lacks
                print(f"left out: {kind.name} ({type(error).__name__}: {error})", flush=True)
                self.rankers.remove(kind)
            else:
                found[kind.name] = lambda query, ranker=ranker: ranker.rank(query, DEPTH)
        return found


def show(table: Table, names: Sequence[str]) -> None:
    """Every ranker on every set, and how far ours is ahead of the best and of each."""
    shown = [OURS, *names]
    print("\nNDCG@10        " + " ".join(f"{name[:12]:>12s}" for name in shown) + "   ahead by")
    for one, scores in table.items():
        lead = scores[OURS] - max(scores[name] for name in names)
        print(f"{one:14s} " + " ".join(f"{scores[n]:12.4f}" for n in shown) + f" {lead:+10.4f}")
    means = {n: sum(scores[n] for scores in table.values()) / len(table) for n in shown}
    lead = means[OURS] - max(means[name] for name in names)
    print(f"{'macro':14s} " + " ".join(f"{means[n]:12.4f}" for n in shown) + f" {lead:+10.4f}\n")
    for name in names:
        leads = {one: scores[OURS] - scores[name] for one, scores in table.items()}
        worst = min(leads, key=lambda one: leads[one])
        ahead = sum(lead > 0 for lead in leads.values())
        behind = sum(lead < -LOSS for lead in leads.values())
        print(
            f"{name:26s} ahead of it on {ahead:2d} of {len(leads)}, more than {LOSS} behind "
            f"on {behind}; at worst {leads[worst]:+.4f} ({worst})"
        )
