"""A query as terms with weights, whole and clause by clause.

A rare term weighs more than a common one. Each term of a query has one weight, however often
it is said; a long request is also read as the clauses it is made of, since each may ask for
another tool.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from discovery_engine.search.lexicon import CONCEPT, Lexicon
from discovery_engine.search.tokens import words

_CUT = re.compile(
    r"[.;?!\n]+(?:\s|$)"
    r"|,\s+(?:and\s+|then\s+)?"
    r"|\s+(?:and\s+then|and\s+also|then|and|also|after\s+that|as\s+well\s+as|followed\s+by"
    r"|before|after|while)\s+",
    re.IGNORECASE,
)
_MOST_CLAUSES = 16
_SHORTEST_CLAUSE = 2  # words
_OF_CONCEPT = 0.6  # of the weight of a word that stands for a concept; the rest is its own
_OF_UNKNOWN = 0.5  # how much a word that no tool has counts against every tool

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Question:
    weights: Weights
    """Of the terms that tools have, the heaviest first."""
    clauses: tuple[Weights, ...]
    """The same of each clause, if there are several."""
    unknown: float
    """The weight of what no tool has."""
    stems: frozenset[str]
    """Of every word, also those that say nothing."""

    @property
    def known(self) -> float:
        return sum(self.weights.values())


class Reader:
    """Reads queries against a catalog, of which it knows how many tools hold each term."""

    def __init__(self, lexicon: Lexicon, count: Callable[[str], int], size: int) -> None:
        self._lexicon = lexicon
        self._count = count
        self._size = size

    def read(self, query: str) -> Question:
        said = words(query)
        spoken = self._spoken(said) or said
        weights, unknown = self._weigh(spoken)
        clauses = [self._spoken(words(clause)) for clause in _CUT.split(query)]
        clauses = [clause for clause in clauses if len(clause) >= _SHORTEST_CLAUSE]
        weighed = [self._weigh(clause)[0] for clause in clauses[:_MOST_CLAUSES]]
        return Question(
            weights=dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))),
            clauses=tuple(filter(None, weighed)) if len(weighed) > 1 else (),
            unknown=unknown,
            stems=frozenset(self._lexicon.stems(query)),
        )

    def _spoken(self, said: Sequence[str]) -> list[str]:
        return [word for word in said if not self._lexicon.is_silent(word)]

    def _weigh(self, spoken: Iterable[str]) -> tuple[dict[str, float], float]:
        weights: dict[str, float] = {}
        unknown = 0.0
        for word in dict.fromkeys(spoken):
            terms = self._lexicon.word_terms(word)
            counts = [self._count(term) for term in terms]
            if not any(counts):
                unknown += self._rarity(0) if word.isalpha() else 0.0
            for term, count in zip(terms, counts, strict=True):
                if count:
                    weights[term] = self._rarity(count) * self._share(term, len(terms))
        return weights, _OF_UNKNOWN * unknown

    def _rarity(self, count: int) -> float:
        return math.log(1 + (self._size - count + 0.5) / (count + 0.5))

    @staticmethod
    def _share(term: str, terms: int) -> float:
        if terms == 1:
            return 1.0
        return _OF_CONCEPT if term.startswith(CONCEPT) else 1 - _OF_CONCEPT
