"""Which words of a text are new, and which are gone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

PartKind: TypeAlias = Literal["same", "removed", "added"]

_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
# Pairs of words that differ: 5 ms; more words are one change, in quadratic time.
_MAX_WORD_PAIRS = 200 * 200


class Part(NamedTuple):
    kind: PartKind
    text: str


def word_diff(before: str, after: str) -> list[Part]:
    """Return the parts that both texts have, that are gone, and that are new, in order.

    The parts that are not new make up `before`, those that are not gone `after`.
    """
    old, new = _WORD.findall(before), _WORD.findall(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    parts = [
        Part("same", "".join(old[:head])),
        *_differences(*middle),
        Part("same", "".join(old[len(old) - tail :])),
    ]
    return [part for part in parts if part.text]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = zip(one, other, strict=False)
    return next(
        (number for number, (a, b) in enumerate(pairs) if a != b), min(map(len, (one, other)))
    )


def _differences(old: list[str], new: list[str]) -> list[Part]:
    if len(old) * len(new) > _MAX_WORD_PAIRS:
        return [Part("removed", "".join(old)), Part("added", "".join(new))]
    parts = []
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(Part("same", "".join(old[i:j])))
        else:
            parts += [Part("removed", "".join(old[i:j])), Part("added", "".join(new[k:m]))]
    return parts
