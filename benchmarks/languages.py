"""How well search ranks for requests in other languages, and for names written together.

    python benchmarks/languages.py [--misses]

The requests and the tools that are right are those of `tests/contract/languages.yaml`. For each
group: the share of requests whose first hit is right, whose first five hold the right one, and
the mean reciprocal rank among ten.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.relevance_requests import Group, groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--misses", action="store_true", help="what did not come first")
    options = parser.parse_args()
    print(f"{'group':16s}    n    hit@1    hit@5      MRR")
    for group in groups():
        ranks = group.ranks()
        print(f"{group.name:16s} {len(ranks):4d} {figures(ranks)}")
        if options.misses:
            tell_misses(group, ranks)


def figures(ranks: list[int | None]) -> str:
    first = sum(rank == 1 for rank in ranks)
    early = sum(rank is not None and rank <= 5 for rank in ranks)
    reciprocal = sum(1 / rank for rank in ranks if rank)
    return " ".join(f"{value / len(ranks):8.3f}" for value in (first, early, reciprocal))


def tell_misses(group: Group, ranks: list[int | None]) -> None:
    for request, rank in zip(group.requests, ranks, strict=True):
        if rank != 1:
            print(f"    {rank or '-':>3}  {request.query}  ({request.tool})")


if __name__ == "__main__":
    main()
