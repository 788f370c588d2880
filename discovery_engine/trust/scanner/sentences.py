"""Splits a reading into sentences, and finds the signals that they give.

This takes linear time: one pass of one pattern with bounded parts, and a look-up for each word. A
sentence gives a signal if it has words of the families of one of its chains, in their order, each
near the one before. In languages other than English the order is free, because verbs and negations
stand elsewhere there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from discovery_engine.tools.findings import FindingKind
from discovery_engine.trust.scanner.word_families import (
    DATA,
    FAMILIES,
    NOT_LATIN,
    SECRET,
    SECRET_FILE,
    F,
    families_of,
    function_words,
    lexicon,
    pattern,
    unspaced_lexicon,
)

LONGEST = 48  # words of a sentence; a longer one is split
_ENGLISH_WORDS = 2  # function words that make a sentence English

_ADDRESS = (
    r"(?:(?:https?|s?ftp|wss?|s3)://|\bwww\.)[^\s<>\"'`)\]]{1,400}(?<![.,;:!?])"
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}|\b\d{1,3}(?:\.\d{1,3}){3}\b|\+\d{7,15}"
)
_SAMPLE = re.compile(r"^127\.|^0\.0|localhost")
_LETTER = r"(?:[^\W_\u3040-\u30ff\u3400-\u9fff]|[\u0900-\u0dff])"
_END = (
    r"[.!?](?<!\be[. ]g[.!?])(?<!\bi[. ]e[.!?])[.!?]*(?=\s|$|[\"')\]*])"
    r"|[\u3002\uff01\uff1f]|[\n;]"
)
"""It begins with a sign, because a search that begins with a lookbehind takes ten times as long."""
SENTENCE_END = re.compile(_END)
LABEL = pattern("label")
_OTHER_TOKENS = (
    r"(?P<path>(?<!\w)[~/.$%*][~/\w.%$*-]{2,200})"
    rf"|(?P<label>{LABEL.pattern})"
    r"|(?P<quoted>`[\w.-]{1,40}`)"
    rf"|(?P<end>{_END})"
    r"|(?P<pause>[,:(){}\u2014\u2013|\u3001\uff0c\uff1a])"
    r"|(?P<unspaced>[\u3040-\u30ff\u3400-\u9fff]+)"
    rf"|(?P<word>{_LETTER}+(?:['_.-]{_LETTER}+)*)"
)
_TOKEN = re.compile(_OTHER_TOKENS)
_TOKEN_OR_ADDRESS = re.compile(rf"(?P<address>{_ADDRESS})|{_OTHER_TOKENS}")
HAS_ADDRESS = re.compile(r"@|://|www\.|\d\.\d|\+\d")
"""Few texts contain an address, and searching for one at each word takes twice as long."""
_WORDS_PER_COMMA = [(0, 0)] * 2
"""The words that a comma counts as, so that words behind it are further away."""
_ACTS = F.DROP | F.GIVE | F.TAKE | F.DESTROY | F.CHANGE | F.VERB
_SPEAKS = F.TELL | F.ASK | F.KNOW | F.OBEY | F.USE
_UNLESS = frozenset({"without", "until", "unless"})
_DO_NOT = frozenset({"don't", "dont", "never", "mustn't", "shouldn't"})


class Sentence(Struct, frozen=True):
    """A sentence as the families of its words; a word without a family is 0."""

    start: int
    end: int
    words: tuple[int, ...]
    families: int
    """The families of all its words."""
    is_english: bool
    is_opening: bool
    """True for the first sentence of its text, which says what a tool does."""


class _Draft:
    """A sentence that is being read."""

    def __init__(self) -> None:
        self.start = 0
        self.words: list[tuple[int, int]] = []
        """The families of each word: in an English sentence, and in another language."""
        self.before = ""
        self.is_order = True
        """True if a verb that follows would be an imperative."""
        self.seen = 0
        self.foreign_words = 0
        self.is_latin = True

    def add(self, word: str) -> None:
        english, foreign = families_of(word)
        self.foreign_words += word in function_words()
        self.is_latin = self.is_latin and word[0] < NOT_LATIN
        if self.before:
            english |= lexicon().english.get(f"{self.before}_{word}", 0)  # "api key"
        if english & _ACTS and any(families & F.NOT for families, _ in self.words[-2:]):
            # "do not skip", "never send": nothing is asked for.
            english &= ~(_ACTS if not english & _SPEAKS else _ACTS & ~F.VERB)
        if word in _UNLESS and F.NOT & self.seen:
            english &= ~F.NOT  # "do not delete without ..." asks for consent
        if word == "be" and self.before == "to":
            english |= F.MUST  # "is to be sent"
        if self.is_order and english & F.VERB:
            english |= F.DO
        self.is_order = (
            bool(english & (F.AND | F.MUST))
            or word in _DO_NOT
            or (self.is_order and (word == "to" or bool(english & F.NOT)))
        )
        self.before = word
        self.seen |= english
        self.words.append((english, foreign))

    def pause(self) -> None:
        self.before = ""
        self.is_order = True
        is_unspaced = self.words and self.words[-1][0] == 0 != self.words[-1][1]
        self.words += _WORDS_PER_COMMA * 3 if is_unspaced else _WORDS_PER_COMMA

    def add_sign(self, families: int, *, is_order: bool = False) -> None:
        self.before = ""
        self.is_order = is_order
        self.words.append((families, families))

    def done(self, end: int, *, is_opening: bool) -> Sentence:
        is_english = self._is_english()
        words = tuple(english if is_english else english | other for english, other in self.words)
        families = 0
        for word in words:
            families |= word
        return Sentence(self.start, end, words, families, is_english, is_opening)

    def _is_english(self) -> bool:
        """Return whether most function words, or on a tie most known words, are English."""
        ours = sum(bool(english & F.ENGLISH) for english, _ in self.words)
        if not self.is_latin:
            return ours >= max(self.foreign_words, _ENGLISH_WORDS)
        if ours != self.foreign_words:
            return ours > self.foreign_words
        english_words = sum(bool(english) for english, _ in self.words)
        return english_words >= sum(
            bool(foreign and not english) for english, foreign in self.words
        )


def sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a plain reading, apart from those without words."""
    draft = _Draft()
    is_opening = True
    end = 0
    pattern = _TOKEN_OR_ADDRESS if HAS_ADDRESS.search(text) else _TOKEN
    for token in pattern.finditer(text):
        kind = token.lastgroup
        if kind == "end" or len(draft.words) >= LONGEST:
            if draft.words:
                yield draft.done(token.end(), is_opening=is_opening)
                is_opening = False
            draft = _Draft()
            if kind == "end":
                continue
        if not draft.words:
            if kind == "pause":
                continue
            draft.start = token.start()
        end = token.end()
        _add(draft, kind or "", token[0])
    if draft.words:
        yield draft.done(end, is_opening=is_opening)


def _add(draft: _Draft, kind: str, token: str) -> None:
    if kind == "word":
        draft.add(token)
    elif kind == "pause":
        draft.pause()
    elif kind == "unspaced":
        pattern, families = unspaced_lexicon()
        draft.is_latin = False
        draft.words += [(0, families[match[0]]) for match in pattern.finditer(token)]
    elif kind == "path":
        draft.add_sign(SECRET if SECRET_FILE.search(token) else F.PRIVATE)
    elif kind == "label":
        draft.add_sign(F.LABEL, is_order=True)
    elif kind == "quoted":
        is_file = SECRET_FILE.search(token)
        draft.add_sign(SECRET if is_file else F.NAME)
    elif not _SAMPLE.search(token):
        draft.add_sign(F.ADDRESS)


_GAP = 5  # words from one link of a chain to the next
_FAR = 1000


class Link(NamedTuple):
    """Matches a word with any of some families and all of others, within `gap` of the last."""

    any: int
    all: int = 0
    gap: int = _GAP


_Chain: TypeAlias = tuple[Link, ...]


class Signal(NamedTuple):
    name: str
    kind: FindingKind
    says: str
    """The message for a person; it follows `it`."""
    chains: tuple[_Chain, ...]
    subject: int = 0
    """The families of words that make it harmless in a tool with that subject."""
    is_unmistakable: bool = False
    """True if no honest tool can give this signal: it is severe by itself."""


def _read_signals() -> Iterator[Signal]:
    for row in tomllib.loads((DATA / "signals.toml").read_text("utf-8"))["signal"]:
        chains = tuple(tuple(map(_link, chain.split())) for chain in row["chains"])
        subject, is_unmistakable = _families(row.get("subject")), "unmistakable" in row
        kind = FindingKind(row["kind"])
        yield Signal(row["name"], kind, row["says"], chains, subject, is_unmistakable)


def _link(text: str) -> Link:
    names, _, gap = text.partition("~")
    return Link(_families(names.lstrip("!")), F.DO * names.startswith("!"), int(gap or _GAP))


def _families(names: str | None) -> int:
    return sum(map(FAMILIES.__getitem__, names.split("|"))) if names else 0


SIGNALS = tuple(_read_signals())
_COMMON = F.ENGLISH | F.AND


def signals_of(sentence: Sentence) -> Iterator[int]:
    """Yield the indices of the signals that a sentence gives."""
    possible = _possible(sentence.families & ~_COMMON)
    if not possible:
        return
    marked = [(at, word) for at, word in enumerate(sentence.words) if word & ~_COMMON]
    for number, chains in possible:
        for chain in chains:
            if _follows(chain, marked) or (not sentence.is_english and _stands(chain, marked)):
                yield number
                break


@lru_cache(maxsize=20_000)
def _possible(families: int) -> tuple[tuple[int, tuple[_Chain, ...]], ...]:
    """Return the indices of the signals, with their chains, that these families allow."""
    possible = []
    for number, signal in enumerate(SIGNALS):
        if chains := tuple(chain for chain in signal.chains if _fits(chain, families)):
            possible.append((number, chains))
    return tuple(possible)


def _fits(chain: _Chain, families: int) -> bool:
    return all(link.any & families and link.all & families == link.all for link in chain)


def _follows(chain: _Chain, marked: list[tuple[int, int]]) -> bool:
    """Return whether words match the chain in order; only the latest match of a link counts."""
    places = [-_FAR] * len(chain)
    last = len(chain) - 1
    links = [(level, *chain[level]) for level in range(last, -1, -1)]
    for at, word in marked:
        for level, any_of, all_of, gap in links:
            if not word & any_of or word & all_of != all_of:
                continue
            if level == 0 or at - places[level - 1] <= gap:
                if level == last:
                    return True
                places[level] = at
    return False


def _stands(chain: _Chain, marked: list[tuple[int, int]]) -> bool:
    """Return whether words match the chain in any order, each word one link, close together."""
    if len(chain) == 1:
        return False
    span = max(link.gap for link in chain) + len(chain)
    places = [-_FAR] * len(chain)
    for at, word in marked:
        fitting = [level for level, link in enumerate(chain) if word & link.any]
        if not fitting:
            continue
        places[min(fitting, key=places.__getitem__)] = at
        if at - min(places) <= span:
            return True
    return False
