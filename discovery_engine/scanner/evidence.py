"""What speaks against a sentence: its words, its signals, and what they weigh where they are seen.

Both weigh more in a tool that is about something else, and signals again in the text of an
argument. The weights are those of a logistic regression (`signal_weights`). No word and no signal
lowers a score: only the place of a sentence does, its language, and how much of it is about what
the rest of the definition is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TypeAlias

from msgspec import Struct

from discovery_engine.scanner.families import FAMILIES, Family
from discovery_engine.scanner.findings import FindingKind
from discovery_engine.scanner.sentences import Sentence, sentences
from discovery_engine.scanner.signal_weights import ALARM, BIAS, SEVERE, WEIGHTS
from discovery_engine.scanner.signals import SIGNALS, signals_of
from discovery_engine.scanner.topic import Topic
from discovery_engine.scanner.word_families import stems_of

_NAMED = 3  # signals that a message names
_GIVEN = Family.DO | Family.NOT | Family.DROP | Family.HIDE | Family.PATH
_UNWEIGHED = Family.ENGLISH | Family.AND
SHARED, ENGLISH, OPENING, ARGUMENT, ENCODED = "shared", "english", "opening", "argument", "encoded"
MARKS = (ENGLISH, OPENING, ARGUMENT, ENCODED)
_MARKS = tuple(WEIGHTS.get(name, 0.0) for name in MARKS)
_SHARED = WEIGHTS.get(SHARED, 0.0)
_BYTES = 8  # of the families of a word
_WORDS_ONLY = "it speaks of matters that the rest of the tool does not"
_NO_TOPIC = Topic()


class Place(Struct, frozen=True):
    """Where a text stands."""

    topic: Topic = _NO_TOPIC
    is_description: bool = False
    is_argument: bool = False
    is_encoded: bool = False


class Evidence(Struct, frozen=True):
    """A sentence that has words or signals to weigh."""

    text: str
    families: int
    signals: tuple[int, ...]
    is_english: bool
    is_opening: bool
    is_mention: bool
    """Whether it talks about such texts, and gives no orders itself."""

    def features(self, place: Place) -> Iterator[tuple[str, float]]:
        """The names of the weights that count, and how much of each does."""
        subject = place.topic.families
        for name, family in FAMILIES:
            if family & self.families & ~_UNWEIGHED:
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
        marks = zip(MARKS, self._marks(place), strict=True)
        yield from ((name, 1.0) for name, (_, holds) in marks if holds)

    def _marks(self, place: Place) -> tuple[tuple[float, bool], ...]:
        """What the place of a sentence weighs, and whether it stands there."""
        is_opening = self.is_opening and place.is_description and not place.is_encoded
        holds = (self.is_english, is_opening, place.is_argument, place.is_encoded)
        return tuple(zip(_MARKS, holds, strict=True))

    def score(self, place: Place) -> float:
        """The log odds that the sentence means harm."""
        subject = place.topic.families
        score = BIAS + weight_of_words(self.families, subject)
        score += sum(_weight_of(number, place) for number in self.signals)
        score += _SHARED * place.topic.shared(stems_of(self.text))
        return score + sum(weight for weight, holds in self._marks(place) if holds)

    def is_alarm(self, place: Place) -> bool:
        return self.is_unmistakable or self.score(place) >= ALARM

    def is_severe(self, place: Place) -> bool:
        return self.is_unmistakable or self.score(place) >= SEVERE

    @property
    def is_unmistakable(self) -> bool:
        return any(SIGNALS[number].is_unmistakable for number in self.signals)

    def strongest(self, place: Place) -> tuple[FindingKind, str]:
        """The kind of the heaviest signal, and the heaviest ones in words."""
        weights = {
            number: float("inf") if SIGNALS[number].is_unmistakable else _weight_of(number, place)
            for number in self.signals
        }
        heaviest = sorted(self.signals, key=lambda number: (-weights[number], number))[:_NAMED]
        if not heaviest:
            return FindingKind.INSTRUCTION, _WORDS_ONLY
        says = "; ".join(SIGNALS[number].says for number in heaviest)
        return SIGNALS[heaviest[0]].kind, says


def evidence_in(text: str, *, is_opening: bool = False) -> Iterator[Evidence]:
    """The sentences of a plain reading that have anything to weigh."""
    for sentence in sentences(text):
        if sentence.families & ~_UNWEIGHED:
            yield Evidence(
                text[sentence.start : sentence.end],
                sentence.families,
                tuple(signals_of(sentence)),
                sentence.is_english,
                is_opening and sentence.is_opening,
                _is_mention(sentence),
            )


def weight_of_words(families: int, subject: int) -> float:
    """What words of these families weigh in a tool that is about some."""
    on_subject, off = _tables()
    beside = families & ~subject
    total = 0.0
    for at in range(_BYTES):
        shift = 8 * at
        total += on_subject[at][families >> shift & 255] + off[at][beside >> shift & 255]
    return total


_Table: TypeAlias = tuple[tuple[float, ...], ...]


@cache
def _tables() -> tuple[_Table, _Table]:
    """The sums of weights for each byte of the families: of all words, of those off the subject."""
    names = {family.bit_length() - 1: of_words(name) for name, family in FAMILIES}
    weights = [WEIGHTS.get(names.get(bit, ""), 0.0) for bit in range(8 * _BYTES)]
    off = [WEIGHTS.get(off_subject(names.get(bit, "")), 0.0) for bit in range(8 * _BYTES)]
    return _sums(weights), _sums(off)


def _sums(weights: list[float]) -> _Table:
    return tuple(
        tuple(
            sum(weights[8 * at + bit] for bit in range(8) if value >> bit & 1)
            for value in range(256)
        )
        for at in range(_BYTES)
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
    """Whether words that announce an example come before what would be an order."""
    for word in sentence.words:
        if word & Family.MENTION and not word & Family.DO:
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


@cache
def feature_names() -> tuple[str, ...]:
    """All features, in the order in which their weights are written."""
    words = [of_words(name) for name, family in FAMILIES if not family & _UNWEIGHED]
    signals = [signal.name for signal in SIGNALS]
    subjects = [signal.name for signal in SIGNALS if signal.subject]
    off = [off_subject(name) for name in (*words, *subjects)]
    inside = [in_argument(name) for name in subjects]
    return (*words, *signals, *off, *inside, SHARED, ENGLISH, OPENING, ARGUMENT, ENCODED)
