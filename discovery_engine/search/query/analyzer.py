"""A query as terms with weights, whole and clause by clause.

A rare term weighs more than a common one. Each term of a query has one weight, however often
it is said; a long request is also read as the clauses it is made of, since each may ask for
another tool.
"""

from __future__ import annotations

import math
import re
from enum import IntEnum
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from discovery_engine.search.text.languages import Heard
from discovery_engine.search.text.lexicon import CONCEPT, SUBJECT, Lexicon
from discovery_engine.search.text.spelling import slips_of
from discovery_engine.search.text.tokens import beginning, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.search.text.languages import Language
    from discovery_engine.search.text.phrases import Phrase

_ADDRESS = re.compile(r"\b(?:https?://|www\.)([^\s/\"'<>)?]+)[^\s\"'<>)]*", re.IGNORECASE)
# A run of marks or spaces is tried from its beginning alone; from each of its characters, a long
# one would take time that grows with the square of its length.
_CUT = re.compile(
    r"(?<![.;?!\n])[.;?!\n]+(?:\s+|$)"
    r"|,\s+(?:and\s+|then\s+)?"
    r"|(?<!\s)\s+(?:and\s+then|and\s+also|then|and|also|after\s+that|as\s+well\s+as|followed\s+by"
    r"|before|after|while)\s+",
    re.IGNORECASE,
)
_ASKING = frozenset(
    (
        "what",
        "whats",
        "which",
        "where",
        "when",
        "who",
        "how many",
        "how much",
        "how long",
        "how far",
    )
)
_WHAT_ASKS = "get"  # what a tool says that a question is for
_READ = 4_000  # characters of a query; reading more would take everybody more than some 20 ms
_WORDS_READ = 400  # of it; no request needs as many
_MOST_CLAUSES = 16
_SHORTEST_CLAUSE = 2  # words
_SHORTEST_PART = 3  # letters of each word in a compound
_RARITY = 0.85  # the power of the usual inverse frequency: a touch less steep
_OF_CONCEPT = 0.65  # of the weight of a word that stands for a concept; the rest is its own
_OF_SUBJECTS = 0.45  # what its subjects add, shared between them
_OF_GUESS = 0.6  # of the weight of a word that may have been meant by a mistyped one
_SHORTEST_GUESS = 4  # letters; any shorter word is near to too many others
_SHORT_QUERY = 8  # words; a longer one says enough without its unknown words
_OF_UNKNOWN = 0.5  # how much a word that no tool has counts against every tool


class Question(Struct, frozen=True):
    weights: Mapping[str, float]
    """Of the terms that tools have, the heaviest first."""
    clauses: tuple[frozenset[str], ...]
    """The terms of each clause, if there are several."""
    unknown: tuple[str, ...]
    """The words that no tool has."""
    unmet: float
    """The weight of what no tool has."""
    stems: frozenset[str]
    """Of every word, also those that say nothing."""


class How(IntEnum):
    """How a term comes of a word of a query, the nearest first."""

    SAID = 0
    TRANSLATED = 1
    SAME = 2
    """It means the same."""
    RELATED = 3
    """It is about the same subject."""
    SLIP = 4
    """It may have been meant."""


class Source(NamedTuple):
    term: str
    word: str
    how: How


def clauses_of(query: str) -> tuple[str, ...]:
    """The clauses of a long request, each of which may ask for another tool."""
    found = [clause for clause in map(str.strip, _CUT.split(query)) if len(words(clause)) > 1]
    return tuple(found[:_MOST_CLAUSES]) if len(found) > 1 else ()


class Reader:
    """Reads queries against a catalog, of which it knows how many tools hold each term."""

    def __init__(self, lexicon: Lexicon, count: Callable[[str], int], size: int) -> None:
        self._lexicon = lexicon
        self._count = count
        self._size = size

    def read(self, query: str) -> Question:
        query = _ADDRESS.sub(_site, beginning(query[:_READ], most=_WORDS_READ))
        language = self._lexicon.language(query)
        phrases = [p for p in self._lexicon.phrases(query) if self._count(p.concept)]
        heard = self._heard(query, language)
        spoken = [word for one in heard for word in one.meant]
        unknown = self._unknown(heard, phrases)
        stems = [self._lexicon.stem(word) for word in (*spoken, *self._compounds(spoken))]
        weights = self._own_weights(heard) | self._weights(stems)
        for phrase in phrases:
            self._weigh(phrase, weights)
        for stem in self._guesses(unknown) if len(spoken) <= _SHORT_QUERY else ():
            for term, weight in self._weights([stem]).items():
                weights.setdefault(term, _OF_GUESS * weight)
        return Question(
            weights=dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))),
            clauses=self._clauses(query, language, weights),
            unknown=tuple(unknown),
            unmet=_OF_UNKNOWN * self._rarity(0) * sum(word.isalpha() for word in unknown),
            stems=frozenset((*self._lexicon.stems(query), *stems)),
        )

    def sources(self, query: str) -> dict[str, Source]:
        """Where each term of a query comes from; if from several words, from the nearest."""
        query = _ADDRESS.sub(_site, beginning(query[:_READ], most=_WORDS_READ))
        heard = self._heard(query, self._lexicon.language(query))
        spoken = [word for one in heard for word in one.meant]
        found = [source for one in heard for source in self._sources_of(one)]
        for compound in self._compounds(spoken):
            found += self._sources(self._lexicon.stem(compound), compound, How.SAID)
        for word in self._unknown(heard, ()):
            for guess in self._guesses([word]):
                found += self._sources(guess, word, How.SLIP)
        for phrase in self._lexicon.phrases(query):
            found.append(Source(phrase.concept, " ".join(phrase.stems), How.SAME))
        nearest: dict[str, Source] = {}
        for source in sorted(found, key=attrgetter("how")):
            nearest.setdefault(source.term, source)
        return nearest

    def _heard(self, query: str, language: Language | None) -> list[Heard]:
        """What the words of a query mean; a question asks for something, too."""
        said = words(query)
        heard = self._lexicon.heard(query, language)
        if heard and not _ASKING.isdisjoint((said[0], " ".join(said[:2]))):
            return [Heard(said[0], (_WHAT_ASKS,)), *heard] if self._is_known(_WHAT_ASKS) else heard
        return heard or [Heard(word, (word,)) for word in said]

    def _sources_of(self, heard: Heard) -> Iterator[Source]:
        if heard.is_translated:
            for word in words(heard.said):
                yield Source(self._lexicon.stem(word), heard.said, How.SAID)
        how = How.TRANSLATED if heard.is_translated else How.SAID
        for word in heard.meant:
            yield from self._sources(self._lexicon.stem(word), heard.said, how)

    def _sources(self, stem: str, said: str, how: How) -> Iterator[Source]:
        yield Source(stem, said, how)
        _, *others = self._lexicon.terms_of_stem(stem)
        for term in others:
            other = How.RELATED if term.startswith(SUBJECT) else How.SAME
            yield Source(term, said, max(how, other))

    def _unknown(self, heard: Sequence[Heard], phrases: Sequence[Phrase]) -> list[str]:
        """The words that no tool has, each once; those of a phrase that tools have are known."""
        met = {stem for phrase in phrases for stem in phrase.stems}
        unmet = (
            one.said
            for one in heard
            if not any(map(self._is_known, one.meant)) and self._lexicon.stem(one.said) not in met
        )
        return list(dict.fromkeys(unmet))

    def _clauses(
        self, query: str, language: Language | None, weights: Mapping[str, float]
    ) -> tuple[frozenset[str], ...]:
        found = [
            weights.keys() & self._terms_of(clause, heard)
            for clause in _CUT.split(query)
            if len(heard := self._lexicon.heard(clause, language)) >= _SHORTEST_CLAUSE
        ]
        return tuple(map(frozenset, found[:_MOST_CLAUSES])) if len(found) > 1 else ()

    def _terms_of(self, clause: str, heard: Sequence[Heard]) -> set[str]:
        terms = {t for one in heard for word in one.meant for t in self._lexicon.terms(word)}
        concepts = (phrase.concept for phrase in self._lexicon.phrases(clause))
        return terms.union(self._foreign(heard), concepts)

    def _own_weights(self, heard: Sequence[Heard]) -> dict[str, float]:
        """What the very words weigh that mean something in English."""
        stems = self._foreign(heard)
        return {s: (1 - _OF_CONCEPT) * self._rarity(n) for s in stems if (n := self._count(s))}

    def _foreign(self, heard: Sequence[Heard]) -> Iterable[str]:
        """The stems of words that mean something in English."""
        said = (one.said for one in heard if one.is_translated)
        return (self._lexicon.stem(word) for text in said for word in words(text))

    def _weigh(self, phrase: Phrase, weights: dict[str, float]) -> None:
        """Give a phrase the share of its words' weight that a concept has."""
        terms = {term for stem in phrase.stems for term in self._lexicon.terms_of_stem(stem)}
        own = sum(weights.get(term, 0.0) for term in terms)
        whole = max(own, self._rarity(self._count(phrase.concept)))
        for term in terms & weights.keys():
            weights[term] *= 1 - _OF_CONCEPT
        weights[phrase.concept] = max(weights.get(phrase.concept, 0.0), _OF_CONCEPT * whole)

    def _weights(self, stems: Iterable[str]) -> dict[str, float]:
        weights: dict[str, float] = {}
        for stem in stems:
            for term, share in self._shares(self._lexicon.terms_of_stem(stem)):
                if count := self._count(term):
                    weights[term] = max(weights.get(term, 0.0), share * self._rarity(count))
        return weights

    @staticmethod
    def _shares(terms: Sequence[str]) -> Iterable[tuple[str, float]]:
        """How the weight of a word is spread over its terms."""
        stem, *others = terms
        subjects = [term for term in others if term.startswith(SUBJECT)]
        for term in subjects:
            yield term, _OF_SUBJECTS / len(subjects)
        if others and others[0].startswith(CONCEPT):
            yield others[0], _OF_CONCEPT
            yield stem, 1 - _OF_CONCEPT
        else:
            yield stem, 1.0

    def _compounds(self, spoken: Sequence[str]) -> Iterable[str]:
        """`web page` also as `webpage`, and `webpage` in two if no tool has it in one."""
        for first, second in pairwise(spoken):
            if first.isalpha() and second.isalpha() and self._has(first + second):
                yield first + second
        for word in spoken:
            if word.isalpha() and not self._has(word):
                cuts = range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1)
                both = [
                    (word[:i], word[i:])
                    for i in cuts
                    if self._has(word[:i]) and self._has(word[i:])
                ]
                yield from max(both, key=lambda two: min(map(self._frequency, two)), default=())

    def _guesses(self, unknown: Sequence[str]) -> Iterable[str]:
        """The commonest stem that is one slip away from each unknown word."""
        mistyped = [w for w in unknown if w.isalpha() and len(w) >= _SHORTEST_GUESS]
        for word in mistyped:
            known = [s for s in slips_of(self._lexicon.stem(word)) if self._count(s)]
            yield from [max(known, key=lambda stem: (self._count(stem), stem))] if known else []

    def _is_known(self, word: str) -> bool:
        return any(
            self._count(term) for term in self._lexicon.terms(word) if not term.startswith(SUBJECT)
        )

    def _has(self, word: str) -> bool:
        return self._frequency(word) > 0

    def _frequency(self, word: str) -> int:
        return self._count(self._lexicon.terms(word)[0])

    def _rarity(self, count: int) -> float:
        return math.pow(math.log(1 + (self._size - count + 0.5) / (count + 0.5)), _RARITY)


def _site(address: re.Match[str]) -> str:
    """An address is an argument; what it says about the tool is the site's name."""
    labels = [label for label in address[1].split(".") if label != "www"]
    return f" url {' '.join(labels[:-1])} "
