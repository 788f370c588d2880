"""The words for operations, read from `data/operations.txt`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import Stemmer

from discovery_engine._util import digests
from discovery_engine.search.operations.operation import Operation

_FILE = Path(__file__).parents[1] / "data" / "operations.txt"


class OperationWords(NamedTuple):
    """By the stem of each word, the operations that it means."""

    verbs: dict[str, int]
    """Words that are verbs wherever they stand."""
    nouns: dict[str, int]
    """Words that may also be nouns or adjectives."""
    phrases: dict[tuple[str, str], int]
    """Pairs of a verb and the word behind it."""


@cache
def operation_words() -> OperationWords:
    stem = Stemmer.Stemmer("english").stemWord
    vocabulary = OperationWords({}, {}, {})
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, mark, *listed = line.replace(":", " :").split()
            meaning = int(Operation[name.upper()])
            for word in listed:
                first, _, second = word.partition("_")
                if second:
                    pair = stem(first), stem(second)
                    vocabulary.phrases[pair] = vocabulary.phrases.get(pair, 0) | meaning
                else:
                    table = vocabulary.verbs if mark == ":" else vocabulary.nouns
                    table[stem(first)] = table.get(stem(first), 0) | meaning
    for word in vocabulary.verbs.keys() & vocabulary.nouns.keys():
        vocabulary.verbs[word] |= vocabulary.nouns.pop(word)
    return vocabulary


@cache
def operation_words_digest() -> bytes:
    """Return a digest of the table; equal if every tool is read alike."""
    return digests.digest(_FILE.read_bytes())
