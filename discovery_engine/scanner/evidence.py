"""What speaks against a sentence: its signals, and what they weigh where they are seen.

A signal weighs more in a tool that is not about its subject, and again in the text of an argument.
The weights are those of a logistic regression (`fitted`). No signal lowers a score; only the place
of a sentence may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from discovery_engine.scanner.findings import FindingKind
from discovery_engine.scanner.lexicon import Family
from discovery_engine.scanner.normalization import plain
from discovery_engine.scanner.sentences import Sentence, families_of, sentences
from discovery_engine.scanner.signal_weights import ALARM, BIAS, SEVERE, WEIGHTS
from discovery_engine.scanner.signals import SIGNALS, signals_of
from discovery_engine.tools.model import Tool

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAMED = 3  # signals that a message names
_GIVEN = Family.DO | Family.NOT | Family.DROP | Family.HIDE | Family.PATH


class Place(Struct, frozen=True):
    """Where a text stands."""

    subject: int = 0
    """The families of words that its tool is about."""
    is_description: bool = False
    is_argument: bool = False
    is_encoded: bool = False


class Evidence(Struct, frozen=True):
    """A sentence that gives signals."""

    start: int
    end: int
    signals: tuple[int, ...]
    is_opening: bool
    is_mention: bool
    """Whether it talks about such texts, and gives no orders itself."""

    def features(self, place: Place) -> Iterator[str]:
        """The names of the weights that count."""
        for number in self.signals:
            signal = SIGNALS[number]
            yield signal.name
            if signal.subject and not signal.subject & place.subject:
                yield f"{signal.name}, off the subject"
                if place.is_argument:
                    yield f"{signal.name}, in an argument"
        if self.is_opening and place.is_description and not place.is_encoded:
            yield "opening"
        if place.is_argument:
            yield "argument"
        if place.is_encoded:
            yield "encoded"

    def score(self, place: Place) -> float:
        """The log odds that the sentence means harm."""
        return BIAS + sum(WEIGHTS.get(feature, 0.0) for feature in self.features(place))

    def is_alarm(self, place: Place) -> bool:
        return self.is_unmistakable or self.score(place) >= ALARM

    def is_severe(self, place: Place) -> bool:
        return self.is_unmistakable or self.score(place) >= SEVERE

    @property
    def is_unmistakable(self) -> bool:
        return any(SIGNALS[number].is_unmistakable for number in self.signals)

    def strongest(self, place: Place) -> tuple[FindingKind, str]:
        """The kind of the heaviest signal, and the heaviest ones in words."""
        weights = dict.fromkeys(self.signals, 0.0)
        for number in self.signals:
            alone = Evidence(0, 0, (number,), is_opening=False, is_mention=False)
            is_clear = SIGNALS[number].is_unmistakable
            weights[number] = float("inf") if is_clear else alone.score(place)
        heaviest = sorted(self.signals, key=lambda number: (-weights[number], number))[:_NAMED]
        says = "; ".join(SIGNALS[number].says for number in heaviest)
        return SIGNALS[heaviest[0]].kind, says


def evidence_in(reading: str) -> Iterator[Evidence]:
    """The sentences of a plain reading that give any signal."""
    for sentence in sentences(reading):
        if signals := tuple(signals_of(sentence)):
            is_mention = _is_mention(sentence)
            yield Evidence(sentence.start, sentence.end, signals, sentence.is_opening, is_mention)


def subject_of(tool: Tool) -> int:
    """The families of words that a tool's name, title and opening sentence are of."""
    families = 0
    for word in _CAMEL.sub(" ", tool.name).replace("_", " ").replace("-", " ").lower().split():
        families |= families_of(word)[0]
    title = tool.definition.get("title")
    for text in (tool.description, title if isinstance(title, str) else ""):
        families |= _opening(text[:400])
    return families


def _opening(text: str) -> int:
    first = next(sentences(plain(text)), None)
    return first.families if first else 0


def _is_mention(sentence: Sentence) -> bool:
    """Whether words that announce an example come before what would be an order."""
    for word in sentence.words:
        if word & Family.MENTION and not word & Family.DO:
            return True
        if word & _GIVEN:
            return False
    return False


@cache
def feature_names() -> tuple[str, ...]:
    """All features, in the order in which their weights are written."""
    names = [signal.name for signal in SIGNALS]
    subjects = [signal.name for signal in SIGNALS if signal.subject]
    names += [f"{name}, off the subject" for name in subjects]
    names += [f"{name}, in an argument" for name in subjects]
    return (*names, "opening", "argument", "encoded")
