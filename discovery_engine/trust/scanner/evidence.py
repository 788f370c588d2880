"""The evidence against a sentence: its words and signals, with weights that depend on its place.

Both weigh more off the tool's subject, and signals also in the text of an argument. The weights are
those of a logistic regression (`scripts/fit_scanner.py`). No word and no signal lowers a score;
only the place of a sentence does, its language, and the share of its words that belong to the
tool's topic. So the sum of the weights of all families that its words may have, in any order, is an
upper bound of the score: most texts are cleared by this sum alone, without further analysis.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from operator import or_

from msgspec import Struct

from discovery_engine.tools.findings import FindingKind
from discovery_engine.tools.offering import Definition
from discovery_engine.trust.scanner.disguises import plain
from discovery_engine.trust.scanner.sentences import (
    HAS_ADDRESS,
    LABEL,
    LONGEST,
    SENTENCE_END,
    SIGNALS,
    Sentence,
    sentences,
    signals_of,
)
from discovery_engine.trust.scanner.word_families import (
    DATA,
    FAMILIES,
    SECRET,
    SECRET_FILE,
    F,
    families_of,
    known,
    stems_of,
    unspaced_families,
)

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]+")
_MIN_REPEATED_WORDS = 4  # the smallest divisor of a share: in short sentences it says little
_OPENING = 400  # characters


class Topic(Struct, frozen=True):
    """The topic of a tool."""

    families: int = 0
    """The families of the words in its name, its title and its opening sentence."""
    stems: frozenset[str] = frozenset()
    """The stems of its names and of the words that several of its sentences have."""

    def shared(self, stems: frozenset[str]) -> float:
        """Return the share of a sentence's stems that belong to the topic."""
        return len(stems & self.stems) / max(_MIN_REPEATED_WORDS, len(stems))


def topic_of(tool: Definition, sentences: Iterable[str]) -> Topic:
    """Return the topic of a tool; `sentences` are those of its whole definition."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(stems_of(sentence))
    repeated = {stem for stem, count in counts.items() if count > 1}
    names = " ".join((tool.name, *(parameter.name for parameter in tool.parameters)))
    named = stems_of(_CAMEL.sub(" ", names).replace("_", " ").lower())
    return Topic(_families(tool), named.union(repeated))


def _families(tool: Definition) -> int:
    title = tool.definition.get("title")
    texts = (tool.description, title if isinstance(title, str) else "")
    openings = [SENTENCE_END.split(plain(text[:_OPENING]), maxsplit=1)[0] for text in texts]
    name = _CAMEL.sub(" ", tool.name).replace("_", " ").lower()
    families = 0
    for word in _WORD.findall(" ".join((name, *openings))):
        english, foreign = families_of(word)
        families |= english or foreign
    return families


_FITTED = json.loads((DATA / "signal_weights.json").read_text("utf-8"))
BIAS, ALARM, SEVERE = (float(_FITTED[name]) for name in ("bias", "alarm", "severe"))
WEIGHTS: dict[str, float] = _FITTED["weights"]
"""In log odds."""
_MAX_LISTED_SIGNALS = 3  # signals in a message
_GIVEN = F.DO | F.NOT | F.DROP | F.HIDE | F.PATH
UNWEIGHED = F.ENGLISH | F.AND
SHARED, ENGLISH, OPENING, ARGUMENT, ENCODED = "shared", "english", "opening", "argument", "encoded"


class Place(Struct, frozen=True):
    """The place of a text in a definition."""

    topic: Topic = Topic()
    is_description: bool = False
    is_argument: bool = False
    is_encoded: bool = False


class Evidence(Struct, frozen=True):
    """A sentence with words or signals that have weights."""

    text: str
    families: int
    signals: tuple[int, ...]
    is_english: bool
    is_opening: bool
    is_mention: bool
    """True if the sentence mentions attacks, and gives no orders itself."""

    def features(self, place: Place) -> Iterator[tuple[str, float]]:
        """Yield the names of the weights that apply, each with its factor."""
        subject = place.topic.families
        for name, family in FAMILIES.items():
            if family & self.families & ~UNWEIGHED:
                yield of_words(name), 1.0
                if not family & subject:
                    yield off_subject(of_words(name)), 1.0
        for number in self.signals:
            signal = SIGNALS[number]
            yield signal.name, 1.0
            if signal.subject and not signal.subject & subject:
                yield off_subject(signal.name), 1.0
                if place.is_argument:
                    yield in_argument(signal.name), 1.0
        yield SHARED, place.topic.shared(stems_of(self.text))
        is_opening = self.is_opening and place.is_description and not place.is_encoded
        yield ENGLISH, self.is_english
        yield OPENING, is_opening
        yield ARGUMENT, place.is_argument
        yield ENCODED, place.is_encoded

    def score(self, place: Place) -> float:
        """Return the log odds that the sentence is malicious."""
        return BIAS + sum(WEIGHTS.get(name, 0.0) * much for name, much in self.features(place))

    def is_alarm(self, place: Place) -> bool:
        return self.is_unmistakable or self.score(place) >= ALARM

    def is_severe(self, place: Place) -> bool:
        return self.is_unmistakable or self.score(place) >= SEVERE

    @property
    def is_unmistakable(self) -> bool:
        return any(SIGNALS[number].is_unmistakable for number in self.signals)

    def strongest(self, place: Place) -> tuple[FindingKind, str]:
        """Return the kind of the heaviest signal, and a message about the heaviest ones."""
        weights = {
            number: float("inf") if SIGNALS[number].is_unmistakable else _weight_of(number, place)
            for number in self.signals
        }
        heaviest = sorted(self.signals, key=lambda number: (-weights[number], number))[
            :_MAX_LISTED_SIGNALS
        ]
        if not heaviest:
            says = "it speaks of matters that the rest of the tool does not"
            return FindingKind.INSTRUCTION, says
        says = "; ".join(SIGNALS[number].says for number in heaviest)
        return SIGNALS[heaviest[0]].kind, says


def evidence_in(text: str, *, is_opening: bool = False) -> Iterator[Evidence]:
    """Yield the sentences of a plain reading that have words or signals with weights."""
    for sentence in sentences(text):
        if sentence.families & ~UNWEIGHED:
            yield Evidence(
                text[sentence.start : sentence.end],
                sentence.families,
                tuple(signals_of(sentence)),
                sentence.is_english,
                is_opening and sentence.is_opening,
                _is_mention(sentence),
            )


@lru_cache(maxsize=50_000)
def weight_of_words(families: int, subject: int) -> float:
    """Return the weight of words of `families` in a tool about the families of `subject`."""
    return sum(
        weight + (0.0 if family & subject else off)
        for family, weight, off in _WORD_WEIGHTS
        if family & families
    )


def _weight_of(number: int, place: Place) -> float:
    signal = SIGNALS[number]
    weight = WEIGHTS.get(signal.name, 0.0)
    if signal.subject and not signal.subject & place.topic.families:
        weight += WEIGHTS.get(off_subject(signal.name), 0.0)
        if place.is_argument:
            weight += WEIGHTS.get(in_argument(signal.name), 0.0)
    return weight


def _is_mention(sentence: Sentence) -> bool:
    """Return whether words that announce an example come before any order."""
    for word in sentence.words:
        if word & F.MENTION and not word & F.DO:
            return True
        if word & _GIVEN:
            return False
    return False


def of_words(family: str) -> str:
    return f"words: {family.lower()}"


def off_subject(name: str) -> str:
    return f"{name}, off the subject"


def in_argument(name: str) -> str:
    return f"{name}, in an argument"


TOKEN = re.compile(r"(?:[^\W_]|[\u0900-\u0dff])+(?:['_.-](?:[^\W_]|[\u0900-\u0dff])+)*")
_SIGN = re.compile(r"[~/$%*`<\[#@+]|\.\w")
PATH = re.compile(r"(?<!\w)[~/.$%*][~/\w.%$*-]{2}")
_LABEL_SIGN = re.compile(r"[<\[#`]")
_PAUSES = re.compile(r"[^\w\s'.-]")
_MAX_WORDS_PER_COMMA = 3  # words that a comma counts as, at most, except in Chinese


class Piece(Struct, frozen=True):
    """A sentence with the bounds from its words, before it is analysed."""

    text: str
    is_opening: bool
    families: int
    """All families that its words may have."""
    is_whole: bool
    """True if the analysis does not split it; otherwise its share of the topic is unknown."""
    most: float
    """The upper bound of its score, if all of it is off the tool's subject."""


def split_sentences(reading: str) -> list[str]:
    """Return the sentences of a plain reading."""
    return [text for text in SENTENCE_END.split(reading) if text and not text.isspace()]


def pieces_of(reading: str) -> Iterator[Piece]:
    """Yield the sentences of a plain reading with their bounds."""
    for number, text in enumerate(split_sentences(reading)):
        yield Piece(text, not number, *_seen(text))


def may_alarm(piece: Piece, place: Place) -> bool:
    """Return whether a piece may raise an alarm at its place; False is certain."""
    least = ALARM - place.is_encoded * max(0.0, WEIGHTS.get(ENCODED, 0.0))
    if piece.most < least:
        return False
    if piece.is_whole:
        least -= WEIGHTS.get(SHARED, 0.0) * place.topic.shared(stems_of(piece.text))
    return piece.most >= least and _bound(piece.families, place.topic.families) >= least


def is_harmless(reading: str) -> bool:
    """Return whether no sentence of an ASCII reading can raise an alarm at any place."""
    families = reduce(or_, map(_possible_families, reading.split()), 0)
    return _bound(families, 0) < ALARM or all(p.most < ALARM for p in pieces_of(reading))


@lru_cache(maxsize=50_000)
def _possible_families(word: str) -> int:
    """Return the families that a word may have, beside any other words."""
    families = _signs(word) | unspaced_families(word) | (F.LABEL if _LABEL_SIGN.search(word) else 0)
    for token in map(known, TOKEN.findall(word)):
        families |= token.english | token.foreign | reduce(or_, (token.pairs or {}).values(), 0)
    return families


@lru_cache(maxsize=500)
def _seen(text: str) -> tuple[int, bool, float]:
    """Return a sentence's possible families, whether it is analysed whole, and its highest score.

    Cached, because the topic of the definition and the sentence's own place both need it.
    """
    tokens = TOKEN.findall(text)
    english = foreign = language = 0
    is_latin = True
    before = ""
    for token in tokens:
        word = known(token)
        english |= word.english
        foreign |= word.foreign
        language += word.language
        is_latin = is_latin and word.is_latin
        if word.pairs and before in word.pairs:
            english |= word.pairs[before]
        before = token
    families = english | _signs(text)
    if language <= 0 or not is_latin:
        families |= foreign | unspaced_families(text)
    is_whole = len(tokens) + _MAX_WORDS_PER_COMMA * len(_PAUSES.findall(text)) < LONGEST
    return families, is_whole, _bound(families, 0)


def _signs(text: str) -> int:
    """Return the families that signs, as opposed to words, may have."""
    families = 0
    if not _SIGN.search(text):
        return families
    if HAS_ADDRESS.search(text):
        families = F.ADDRESS
    if PATH.search(text):
        families |= F.PRIVATE | (F.PATH if SECRET_FILE.search(text) else 0)
    if "`" in text:
        families |= F.NAME | (SECRET if SECRET_FILE.search(text) else 0)
    return families | (F.LABEL if LABEL.search(text) else 0)


def _bound(families: int, subject: int) -> float:
    """Return an upper bound of the score of sentences whose words have these families."""
    words = weight_of_words(families, subject)
    return _MOST_OF_PLACE + words + _most_of_signals(families & _IN_SIGNALS)


@lru_cache(maxsize=50_000)
def _most_of_signals(families: int) -> float:
    has_any = families.__and__  # mapped: a generator for each chain took a fifth of a scan
    return sum(gain for gain, chains in _GAINS if any(all(map(has_any, chain)) for chain in chains))


def _gains() -> Iterator[tuple[float, tuple[tuple[int, ...], ...]]]:
    """Yield for each signal the most that it adds, and the families that its chains need."""
    for signal in SIGNALS:
        names = (signal.name, off_subject(signal.name), in_argument(signal.name))
        gain = sum(WEIGHTS.get(name, 0.0) for name in names)
        if signal.is_unmistakable:
            gain = float("inf")
        if gain > 0:
            yield (
                gain,
                tuple(
                    tuple({link.any for link in chain} | {link.all for link in chain if link.all})
                    for chain in signal.chains
                ),
            )


_WORD_WEIGHTS = tuple(
    (family, WEIGHTS.get(of_words(name), 0.0), WEIGHTS.get(off_subject(of_words(name)), 0.0))
    for name, family in FAMILIES.items()
)
_MOST_OF_PLACE = BIAS + sum(
    max(0.0, WEIGHTS.get(name, 0.0)) for name in (ENGLISH, OPENING, ARGUMENT)
)
_GAINS = tuple(_gains())
_IN_SIGNALS = reduce(or_, (link for _, chains in _GAINS for chain in chains for link in chain), 0)
