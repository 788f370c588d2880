"""The quick look at a text: which of its sentences could raise an alarm at all.

Most cannot. No word and no signal lowers a score, so the weights of all that a sentence's words may
be about, in whatever order they stand, are never less than its score. Only what passes is read
word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, reduce
from operator import or_

from msgspec import Struct

from discovery_engine.scanner.disguises import is_undisguised
from discovery_engine.scanner.evidence import (
    ARGUMENT,
    ENCODED,
    ENGLISH,
    OPENING,
    SHARED,
    Place,
    in_argument,
    off_subject,
    weight_of_words,
)
from discovery_engine.scanner.families import Family
from discovery_engine.scanner.normalization import plain
from discovery_engine.scanner.sentences import HAS_ADDRESS, LABEL, LONGEST, SENTENCE_END
from discovery_engine.scanner.signal_weights import ALARM, BIAS, WEIGHTS
from discovery_engine.scanner.signals import SIGNALS
from discovery_engine.scanner.word_families import (
    SECRET,
    SECRET_FILE,
    known,
    stems_of,
    unspaced_families,
)

F = Family
TOKEN = re.compile(r"(?:[^\W_]|[\u0900-\u0dff])+(?:['_.-](?:[^\W_]|[\u0900-\u0dff])+)*")
_SIGN = re.compile(r"[~/$%*`<\[#@+]|\.\w")
PATH = re.compile(r"(?<!\w)[~/.$%*][~/\w.%$*-]{2}")
_PAUSES = re.compile(r"[^\w\s'.-]")
_PAUSE = 3  # words that a comma counts for at most, but in Chinese
_KNOWN_SUMS = 50_000
_SHORT = 200  # characters of a text that is remembered: most short ones are said again and again
_REMEMBERED = 5000
_SENTENCES = 500


class Piece(Struct, frozen=True):
    """A sentence as the quick look sees it."""

    text: str
    families: int
    """All that its words may be about."""
    is_opening: bool
    is_whole: bool
    """Whether it is read in one: what a longer one shares with a topic is not known yet."""
    most: float
    """What it may score at most, in a tool that is about nothing it says."""


class Screening(Struct, frozen=True):
    """A text as the quick look sees it."""

    is_undisguised: bool
    pieces: tuple[Piece, ...]

    @property
    def is_harmless(self) -> bool:
        """Whether nothing can be found in it, whatever its tool is about."""
        return self.is_undisguised and all(piece.most < ALARM for piece in self.pieces)


def screened(text: str) -> Screening:
    return _screened(text) if len(text) > _SHORT else _remembered(text)


def _screened(text: str) -> Screening:
    return Screening(is_undisguised(text), tuple(pieces_of(plain(text))))


_remembered = lru_cache(maxsize=_REMEMBERED)(_screened)


def pieces_of(reading: str) -> Iterator[Piece]:
    """The sentences of a plain reading."""
    is_opening = True
    for text in SENTENCE_END.split(reading):
        if text and not text.isspace():
            yield piece_of(text, is_opening=is_opening)
            is_opening = False


def may_alarm(piece: Piece, place: Place) -> bool:
    """Whether a piece may raise an alarm where it stands."""
    least = ALARM - place.is_encoded * max(0.0, WEIGHTS.get(ENCODED, 0.0))
    if piece.most < least:
        return False
    if piece.is_whole:
        least -= WEIGHTS.get(SHARED, 0.0) * place.topic.shared(stems_of(piece.text))
    return piece.most >= least and _bound(piece.families, place.topic.families) >= least


def piece_of(text: str, *, is_opening: bool = False) -> Piece:
    families, is_whole, most = _seen(text)
    return Piece(text, families, is_opening, is_whole, most)


@lru_cache(maxsize=_SENTENCES)
def _seen(text: str) -> tuple[int, bool, float]:
    """What a sentence may be about, whether it is read in one, and what it may score at most.

    It is asked twice where a definition is not cleared at one look.
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
    is_whole = len(tokens) + _PAUSE * len(_PAUSES.findall(text)) < LONGEST
    return families, is_whole, _bound(families, 0)


def _signs(text: str) -> int:
    """What signs that are no words may be about."""
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
    """What no sentence whose words are of these families can score more than."""
    words = weight_of_words(families, subject)
    return _MOST_OF_PLACE + words + _most_of_signals(families & _IN_SIGNALS)


def may_reach_alarm(families: int) -> bool:
    """Whether a sentence whose words are of these families can raise an alarm, wherever it is."""
    words = _MOST_OF_PLACE + weight_of_words(families, 0)
    return words >= ALARM or words + _most_of_signals(families & _IN_SIGNALS) >= ALARM


@lru_cache(maxsize=_KNOWN_SUMS)
def _most_of_signals(families: int) -> float:
    total = 0.0
    for needed, gain, chains in _GAINS:
        if families & needed:
            for chain in chains:
                if all(families & link for link in chain):
                    total += gain
                    break
    return total


def _gains() -> Iterator[tuple[int, float, tuple[tuple[int, ...], ...]]]:
    """Of each signal, what it may add, and the families that each of its chains needs.

    The first number is a family of each chain: without any of them, no chain need be looked at.
    """
    for signal in SIGNALS:
        names = (signal.name, off_subject(signal.name), in_argument(signal.name))
        gain = sum(WEIGHTS.get(name, 0.0) for name in names)
        if signal.is_unmistakable:
            gain = float("inf")
        if gain > 0:
            chains = tuple(
                tuple({link.any for link in chain} | {link.all for link in chain if link.all})
                for chain in signal.chains
            )
            rarest = [min(chain, key=int.bit_count) for chain in chains]
            yield reduce(or_, rarest), gain, chains


_MOST_OF_PLACE = BIAS + sum(
    max(0.0, WEIGHTS.get(name, 0.0)) for name in (ENGLISH, OPENING, ARGUMENT)
)
_GAINS = tuple(_gains())
_IN_SIGNALS = reduce(
    or_, (link for _, _, chains in _GAINS for chain in chains for link in chain), 0
)
