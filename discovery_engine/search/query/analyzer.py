"""A query as weighted terms, whole and clause by clause.

A rare term weighs more than a common one (inverse document frequency). A term has one weight,
however often the query contains it. A long request is also split into clauses, since each may ask
for another tool.
"""

from __future__ import annotations

import math
import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.search.operations.operation import find_arguments
from discovery_engine.search.operations.request_reading import (
    RequestReading,
    intent_of,
    is_one_sentence,
    read_request,
    wanted_part,
)
from discovery_engine.search.text.languages import Token
from discovery_engine.search.text.lexicon import CONCEPT, CONCEPT_WEIGHT, SUBJECT, Lexicon
from discovery_engine.search.text.tokenizer import (
    Compound,
    compounds,
    single_edits,
    truncate_words,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.search.text.languages import Language
    from discovery_engine.search.text.lexicon import Phrase

_ADDRESS = lazy_pattern(r"\b(?:https?://|www\.)([^\s/\"'<>)?]+)[^\s\"'<>)]*", re.IGNORECASE)
_QUESTION_WORDS = frozenset(
    (
        *("what", "whats", "which", "where", "when", "who"),
        *("how many", "how much", "how long", "how far"),
    )
)
_FIRST_WORDS = frozenset(question.split()[0] for question in _QUESTION_WORDS)
_QUESTION_VERB = "get"  # what a tool does that answers a question
# Beside a word that one tool has. In a small catalog `get` would else say more than the question.
_MOST_IMPLIED = 0.25
_MOST_CHARACTERS = 4_000  # of a query that are analyzed; more would take over some 20 ms
_MOST_WORDS = 400  # no request needs as many
_COUNTS_KEPT = 2_000  # document frequencies: a query asks for some thirty, most of them twice
_SHORTEST_CLAUSE = 2  # words
_SHORTEST_PART = 3  # letters of each word in a compound
# What these are worth (`scripts/fit_ranking.py --limit 80`, 13 sets): beside each, by how much a
# quarter less and a quarter more change the macro NDCG@10 of 0.6858, in 1/10,000. For
# CONCEPT_WEIGHT it is -73 and +9.
_IDF_POWER = 0.85  # -24, -48; of the inverse document frequency: less steep than the usual 1
_SUBJECTS_WEIGHT = 0.45  # -41, -1; of all subjects of a word together, beside the word
_GUESS_WEIGHT = 0.6  # -4, +1; of a word that an unknown one may be a typo of
_ARGUMENT_WEIGHT = 0.55  # of a word that stands in arguments alone, or says when
_WHOLE_SHARE = 0.8  # of a compound as one word; the rest is for its parts. 0.6 and 0.95: -2, -1
_SHORTEST_GUESS = 4  # letters; a shorter word is an edit away from too many others
_SHORT_QUERY = 8  # words; a longer one is sufficient without its unknown words
_UNKNOWN_WEIGHT = 0.5  # 0, 0; what a word that no tool has counts against every tool


_FILLERS = """
    now already last tonight still next just yet ever never always again once twice soon later
    today yesterday tomorrow morning afternoon evening night monday tuesday wednesday thursday
    friday saturday sunday zero one two three four five six seven eight nine ten eleven twelve
    first second third nothing something anything everything everybody everywhere else away back
    down afterwards according moment right whole itself long little bit got look see told asked
    asks found made called went left whenever hour hours day days week weeks month months year years
    ended phew puts
"""
SAY_NOTHING = frozenset(_FILLERS.split())
"""Common words that no tool would mention, so that their absence says nothing of it."""


class QueryTerms(Struct, frozen=True):
    weights: Mapping[str, float]
    """The weights of the terms that some tool has, the heaviest first."""
    clauses: tuple[frozenset[str], ...]
    """The terms of each clause, if there are several."""
    unknown: tuple[str, ...]
    """The words that no tool has."""
    unknown_weight: float
    """The weight of those words together."""
    stems: frozenset[str]
    """The stems of all words, stop words included."""


class Derivation(IntEnum):
    """The way a term follows from a word of a query, the closest first."""

    LITERAL = 0
    TRANSLATED = 1
    SYNONYM = 2
    RELATED = 3
    """The term is of the same subject."""
    TYPO = 4
    """The word may be a typo of the term."""


class TermSource(Struct, frozen=True):
    term: str
    word: str
    derivation: Derivation


class Vocabulary(Protocol):
    """The terms of a catalog."""

    @property
    def size(self) -> int:
        """The number of tools."""

    def document_frequency(self, term: str) -> int:
        """The number of tools that hold a term."""

    def known_terms(self, terms: Collection[str]) -> Collection[str]:
        """Return the terms that some tool may hold."""


class QueryAnalyzer:
    """Analyzes queries against a catalog."""

    def __init__(self, lexicon: Lexicon, vocabulary: Vocabulary) -> None:
        self._lexicon = lexicon
        self._vocabulary = vocabulary
        self._df = lru_cache(_COUNTS_KEPT)(vocabulary.document_frequency)
        self._size = vocabulary.size

    def analyze(self, query: str) -> QueryTerms:
        terms, _ = self.analyze_and_read(query)
        return terms

    def analyze_and_read(self, query: str) -> tuple[QueryTerms, RequestReading]:
        """The terms of a query, and what it asks for."""
        text, language = self._wanted(query)
        terms = self._terms(text, _with_sites(text), language)
        return terms, read_request(text, self._lexicon, language, terms.unknown)

    def _wanted(self, query: str) -> tuple[str, Language | None]:
        """Return a query without what it says it does not want, and its language."""
        text = _shortened(query)
        language = self._lexicon.detect_language(_with_sites(text))
        return wanted_part(text, language), language

    def _terms(self, text: str, query: str, language: Language | None) -> QueryTerms:
        """The terms of a text, given also with sites in place of addresses."""
        phrases = [p for p in self._lexicon.find_phrases(query) if self._df(p.concept)]
        wholes = self._wholes(query)
        tokens = self._tokens(query, language)
        english = [word for token in tokens for word in token.english]
        unknown = self._unknown(tokens, phrases, wholes)
        stems = [self._lexicon.stem(word) for word in (*english, *self._compounds(english))]
        weights = self._own_weights(tokens) | self._weights(stems)
        for token in tokens:
            if token.is_colloquial and self._has(token.text):
                self._weigh_colloquial(token, english, weights)
        self._weigh_fillers(tokens, weights)
        # What several sentences quote may be what they are about: without this condition the
        # NDCG@10 of whole task descriptions is 0.005 to 0.007 lower.
        if is_one_sentence(text) and (arguments := find_arguments(text)):
            self._weigh_arguments(_with_sites(intent_of(text, arguments)), language, weights)
        for phrase in phrases:
            self._weigh(phrase, weights)
        for compound in wholes:
            self._weigh_compound(compound, weights)
        for stem in self._guesses(unknown) if len(english) <= _SHORT_QUERY else ():
            for term, weight in self._weights([stem]).items():
                weights.setdefault(term, _GUESS_WEIGHT * weight)
        return QueryTerms(
            weights=dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))),
            clauses=self._clauses(query, language, weights),
            unknown=tuple(unknown),
            unknown_weight=_UNKNOWN_WEIGHT * self._idf(0) * sum(word.isalpha() for word in unknown),
            stems=frozenset((*self._lexicon.stems(query), *stems)),
        )

    def term_sources(self, query: str) -> dict[str, TermSource]:
        """The word that each term of a query follows from; the closest of several."""
        text, language = self._wanted(query)
        query = _with_sites(text)
        tokens = self._tokens(query, language)
        english = [word for token in tokens for word in token.english]
        sources = [source for token in tokens for source in self._sources_of(token)]
        for joined in self._compounds(english):
            sources += self._sources(self._lexicon.stem(joined), joined, Derivation.LITERAL)
        wholes = self._wholes(query)
        for compound in wholes:
            stem = self._lexicon.stem(compound.whole)
            sources += self._sources(stem, compound.whole, Derivation.LITERAL)
        for word in self._unknown(tokens, (), wholes):
            for guess in self._guesses([word]):
                sources += self._sources(guess, word, Derivation.TYPO)
        for phrase in self._lexicon.find_phrases(query):
            sources.append(TermSource(phrase.concept, " ".join(phrase.stems), Derivation.SYNONYM))
        nearest: dict[str, TermSource] = {}
        for source in sorted(sources, key=attrgetter("derivation")):
            nearest.setdefault(source.term, source)
        return nearest

    def _tokens(self, query: str, language: Language | None) -> list[Token]:
        """The words of a query without stop words; a question also asks to get something."""
        query_words = words(query)
        tokens = self._lexicon.tokens(query, language)
        if tokens and not _QUESTION_WORDS.isdisjoint((query_words[0], " ".join(query_words[:2]))):
            verb = (
                [Token(query_words[0], (_QUESTION_VERB,))] if self._is_known(_QUESTION_VERB) else []
            )
            return verb + tokens
        return tokens or [Token(word, (word,)) for word in query_words]

    def _sources_of(self, token: Token) -> Iterator[TermSource]:
        if token.is_translated:
            for word in words(token.text):
                yield TermSource(self._lexicon.stem(word), token.text, Derivation.LITERAL)
        if token.is_colloquial:
            stem = self._lexicon.stem(token.text)
            yield from self._sources(stem, token.text, Derivation.LITERAL)
        derivation = Derivation.TRANSLATED if token.is_translated else Derivation.LITERAL
        for word in token.english:
            yield from self._sources(self._lexicon.stem(word), token.text, derivation)

    def _sources(self, stem: str, word: str, derivation: Derivation) -> Iterator[TermSource]:
        yield TermSource(stem, word, derivation)
        _, *others = self._lexicon.terms_of_stem(stem)
        for term in others:
            other = Derivation.RELATED if term.startswith(SUBJECT) else Derivation.SYNONYM
            yield TermSource(term, word, max(derivation, other))

    def _wholes(self, query: str) -> list[Compound]:
        """The compounds of a query that tools have as one word."""
        return [compound for compound in compounds(query) if self._is_known(compound.whole)]

    def _unknown(
        self, tokens: Sequence[Token], phrases: Sequence[Phrase], wholes: Sequence[Compound]
    ) -> list[str]:
        """The words that no tool has, each once.

        Those in a phrase or a compound that tools have are known.
        """
        in_phrases = {stem for phrase in phrases for stem in phrase.stems}
        in_phrases.update(self._lexicon.stem(part) for whole in wholes for part in whole.parts)
        unknown = (
            token.text
            for token in tokens
            if not any(map(self._is_known, (*token.english, token.text)))
            and self._lexicon.stem(token.text) not in in_phrases
        )
        return list(dict.fromkeys(unknown))

    def _clauses(
        self, query: str, language: Language | None, weights: Mapping[str, float]
    ) -> tuple[frozenset[str], ...]:
        pieces = _split_at_boundaries(query)
        if len(pieces) == 1:
            return ()
        clauses = [
            weights.keys() & self._terms_of(clause, tokens)
            for clause in pieces
            if len(tokens := self._lexicon.tokens(clause, language)) >= _SHORTEST_CLAUSE
        ]
        return tuple(map(frozenset, clauses[:MOST_CLAUSES])) if len(clauses) > 1 else ()

    def _terms_of(self, clause: str, tokens: Sequence[Token]) -> set[str]:
        terms = self._terms_in(tokens)
        terms.update(t for whole in compounds(clause) for t in self._lexicon.terms(whole.whole))
        concepts = (phrase.concept for phrase in self._lexicon.find_phrases(clause))
        return terms.union(self._foreign_stems(tokens), concepts)

    def _own_weights(self, tokens: Sequence[Token]) -> dict[str, float]:
        """The weights of words that were translated, as they stand in the query."""
        stems = self._foreign_stems(tokens)
        return {s: (1 - CONCEPT_WEIGHT) * self._idf(n) for s in stems if (n := self._df(s))}

    def _foreign_stems(self, tokens: Sequence[Token]) -> Iterable[str]:
        """The stems of the words that were translated."""
        texts = (token.text for token in tokens if token.is_translated)
        return (
            self._lexicon.stem(word)
            for text in texts
            for word in words(text)
            if not self._lexicon.is_stop_word(word)
        )

    def _weigh(self, phrase: Phrase, weights: dict[str, float]) -> None:
        """Give a phrase the share of its words' weight that a concept has."""
        terms = {term for stem in phrase.stems for term in self._lexicon.terms_of_stem(stem)}
        own = sum(weights.get(term, 0.0) for term in terms)
        whole = max(own, self._idf(self._df(phrase.concept)))
        for term in terms & weights.keys():
            weights[term] *= 1 - CONCEPT_WEIGHT
        weights[phrase.concept] = max(weights.get(phrase.concept, 0.0), CONCEPT_WEIGHT * whole)

    def _weigh_fillers(self, tokens: Sequence[Token], weights: dict[str, float]) -> None:
        """Let words that say when, and the verb that a question leaves out, count for less."""
        fillers = [token for token in tokens if token.text in SAY_NOTHING]
        implied = [token for token in tokens[:1] if token.text in _FIRST_WORDS]
        said = self._terms_in([t for t in tokens if t not in fillers and t not in implied])
        for term in weights.keys() & self._terms_in(fillers) - said:
            weights[term] *= _ARGUMENT_WEIGHT
        for term in weights.keys() & self._terms_in(implied) - said:
            weights[term] = min(weights[term], _MOST_IMPLIED * self._idf(1))

    def _terms_in(self, tokens: Iterable[Token]) -> set[str]:
        return {term for t in tokens for word in t.english for term in self._lexicon.terms(word)}

    def _weigh_arguments(
        self, intent: str, language: Language | None, weights: dict[str, float]
    ) -> None:
        """Let words that stand in arguments alone count for less."""
        tokens = self._tokens(intent, language)
        english = [word for token in tokens for word in token.english]
        terms = {t for w in (*english, *self._compounds(english)) for t in self._lexicon.terms(w)}
        terms.update(self._foreign_stems(tokens))
        for term in weights.keys() - terms:
            weights[term] *= _ARGUMENT_WEIGHT

    def _weigh_colloquial(
        self, token: Token, english: Sequence[str], weights: dict[str, float]
    ) -> None:
        """Weigh the meaning of a colloquial word like a synonym if tools have the word itself."""
        weights.update(self._weights([self._lexicon.stem(token.text)]))
        meant = (word for word in token.english if english.count(word) == 1)
        for term in {term for word in meant for term in self._lexicon.terms(word)}:
            if term in weights:
                weights[term] *= CONCEPT_WEIGHT

    def _weigh_compound(self, compound: Compound, weights: dict[str, float]) -> None:
        """Leave the parts of a word a share; a text that has the whole has the parts, too."""
        terms = {term for part in compound.parts for term in self._lexicon.terms(part)}
        for term in terms & weights.keys():
            weights[term] *= 1 - _WHOLE_SHARE
        for term, weight in self._weights([self._lexicon.stem(compound.whole)]).items():
            weights[term] = max(weights.get(term, 0.0), _WHOLE_SHARE * weight)

    def _weights(self, stems: Iterable[str]) -> dict[str, float]:
        weights: dict[str, float] = {}
        for stem in stems:
            for term, share in self._shares(self._lexicon.terms_of_stem(stem)):
                if count := self._df(term):
                    weights[term] = max(weights.get(term, 0.0), share * self._idf(count))
        return weights

    @staticmethod
    def _shares(terms: Sequence[str]) -> Iterable[tuple[str, float]]:
        """Yield the terms of a word, each with its share of the word's weight."""
        stem, *others = terms
        subjects = [term for term in others if term.startswith(SUBJECT)]
        for term in subjects:
            yield term, _SUBJECTS_WEIGHT / len(subjects)
        if others and others[0].startswith(CONCEPT):
            yield others[0], CONCEPT_WEIGHT
            yield stem, 1 - CONCEPT_WEIGHT
        else:
            yield stem, 1.0

    def _compounds(self, english: Sequence[str]) -> Iterable[str]:
        """`web page` also as `webpage`, and `webpage` in two if no tool has it in one."""
        for first, second in pairwise(english):
            if first.isalpha() and second.isalpha() and self._has(first + second):
                yield first + second
        for word in english:
            if word.isalpha() and not self._has(word):
                cuts = range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1)
                both = [
                    (word[:i], word[i:])
                    for i in cuts
                    if self._has(word[:i]) and self._has(word[i:])
                ]
                yield from max(both, key=lambda two: min(map(self._frequency, two)), default=())

    def _guesses(self, unknown: Sequence[str]) -> Iterable[str]:
        """The commonest stem one edit away from each unknown word."""
        mistyped = [w for w in unknown if w.isalpha() and len(w) >= _SHORTEST_GUESS]
        for word in mistyped:
            stems = self._vocabulary.known_terms(single_edits(self._lexicon.stem(word)))
            guess = max(stems, key=lambda stem: (self._df(stem), stem), default="")
            if guess and self._df(guess):
                yield guess

    def _is_known(self, word: str) -> bool:
        return any(
            self._df(term) for term in self._lexicon.terms(word) if not term.startswith(SUBJECT)
        )

    def _has(self, word: str) -> bool:
        return self._frequency(word) > 0

    def _frequency(self, word: str) -> int:
        return self._df(self._lexicon.terms(word)[0])

    def _idf(self, count: int) -> float:
        return math.pow(math.log(1 + (self._size - count + 0.5) / (count + 0.5)), _IDF_POWER)


def _shortened(query: str) -> str:
    """The part of a query that is analyzed."""
    return truncate_words(query[:_MOST_CHARACTERS], most=_MOST_WORDS)


def _with_sites(query: str) -> str:
    """A query with the sites of addresses in their place."""
    return _ADDRESS.sub(_site, query)


def _site(address: re.Match[str]) -> str:
    """An address is an argument; only the name of the site is about the tool."""
    labels = [label for label in address[1].split(".") if label != "www"]
    return f" url {' '.join(labels[:-1])} "


MOST_CLAUSES: Final = 16
"""Further clauses of a request are not looked at."""

# A run of marks or spaces is tried from its beginning alone; from each of its characters, a long
# one would take time that grows with the square of its length.
_BOUNDARY = lazy_pattern(
    r"(?<![.;?!\n])[.;?!\n]+(?:\s+|$)"
    r"|,\s+(?:and\s+|then\s+)?"
    r"|(?<!\s)\s+(?:and\s+then|and\s+also|then|and|also|after\s+that|as\s+well\s+as|followed\s+by"
    r"|before|after|while)\s+",
    re.IGNORECASE,
)


def split_clauses(query: str) -> tuple[str, ...]:
    """The clauses of a request that has several of more than one word; otherwise none."""
    clauses = [
        clause for clause in map(str.strip, _split_at_boundaries(query)) if len(words(clause)) > 1
    ]
    return tuple(clauses[:MOST_CLAUSES]) if len(clauses) > 1 else ()


def _split_at_boundaries(query: str) -> list[str]:
    """The pieces between sentence marks, commas and conjunctions, whatever their length."""
    return _BOUNDARY.split(query)
