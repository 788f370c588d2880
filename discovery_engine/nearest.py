"""The known names nearest to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable

_OFFERED = 3
_ALIKE = 60.0  # of 100; below this a suggestion puzzles more than it helps


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """At most three names of `known` like `word`, the likest first; case does not count."""
    # Only a mistake needs this library, and every start of the command line would pay for it.
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415

    found = process.extract(
        word,
        sorted(known),
        scorer=fuzz.WRatio,
        processor=utils.default_process,
        limit=_OFFERED,
        score_cutoff=_ALIKE,
    )
    return [name for name, _, _ in found]
