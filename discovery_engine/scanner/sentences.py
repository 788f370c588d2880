"""A reading cut into sentences, and each word of them known by its families.

Reading is linear in the text: one pass of one pattern, whose parts are bounded, and a look-up for
each word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from discovery_engine.scanner.families import Family
from discovery_engine.scanner.word_families import (
    FUNCTION_WORDS,
    NOT_LATIN,
    SECRET,
    SECRET_FILE,
    families_of,
    lexicon,
    unspaced_lexicon,
)

F = Family
LONGEST = 48  # words of a sentence: a longer one is read in pieces
_ENGLISH_WORDS = 2  # function words by which a sentence is known to be English

_ADDRESS = (
    r"(?:(?:https?|s?ftp|wss?|s3)://|\bwww\.)[^\s<>\"'`)\]]{1,400}(?<![.,;:!?])"
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}|\b\d{1,3}(?:\.\d{1,3}){3}\b|\+\d{7,15}"
)
_SAMPLE = re.compile(r"^127\.|^0\.0|localhost")
_LABEL = (
    r"</?\|?(?:important|system|secret|hidden|instructions?|admin|assistant|human|user|im_start"
    r"|im_end|sys|tool|inst)[a-z_-]{0,20}\b[^<>\n]{0,60}\|?>"
    r"|\[/?(?:system|inst|admin|important|assistant|instructions?)\b[^\]\n]{0,40}\]"
    r"|<!--|\#{2,6} ?system\b|```system\b|<<sys>>"
)
_LETTER = r"(?:[^\W_\u3040-\u30ff\u3400-\u9fff]|[\u0900-\u0dff])"
_END = (
    r"[.!?](?<!\be[. ]g[.!?])(?<!\bi[. ]e[.!?])[.!?]*(?=\s|$|[\"')\]*])"
    r"|[\u3002\uff01\uff1f]|[\n;]"
)
"""It begins with a sign: a search that begins with a look behind takes ten times as long."""
SENTENCE_END = re.compile(_END)
_OTHER_TOKENS = (
    r"(?P<path>(?<!\w)[~/.$%*][~/\w.%$*-]{2,200})"
    rf"|(?P<label>{_LABEL})"
    r"|(?P<quoted>`[\w.-]{1,40}`)"
    rf"|(?P<end>{_END})"
    r"|(?P<pause>[,:(){}\u2014\u2013|\u3001\uff0c\uff1a])"
    r"|(?P<unspaced>[\u3040-\u30ff\u3400-\u9fff]+)"
    rf"|(?P<word>{_LETTER}+(?:['_.-]{_LETTER}+)*)"
)
LABEL = re.compile(_LABEL)
_TOKEN = re.compile(_OTHER_TOKENS)
_TOKEN_OR_ADDRESS = re.compile(rf"(?P<address>{_ADDRESS})|{_OTHER_TOKENS}")
HAS_ADDRESS = re.compile(r"@|://|www\.|\d\.\d|\+\d")
"""To look for an address at each word takes twice as long, and few texts hold any."""
_PAUSE = [(0, 0)] * 2
"""What stands behind a comma is further away."""
_ACTS = F.DROP | F.GIVE | F.TAKE | F.DESTROY | F.CHANGE | F.VERB
_SPEAKS = F.TELL | F.ASK | F.KNOW | F.OBEY | F.USE
_UNLESS = frozenset({"without", "until", "unless"})
_DO_NOT = frozenset({"don't", "dont", "never", "mustn't", "shouldn't"})


class Sentence(Struct, frozen=True):
    """A sentence by the families of its words; a word of no family is a zero."""

    start: int
    end: int
    words: tuple[int, ...]
    families: int
    """Of all its words."""
    is_english: bool
    is_opening: bool
    """Whether it is the first of its text: what a tool does is said there."""


class _Draft:
    """A sentence that is being read."""

    def __init__(self) -> None:
        self.start = 0
        self.words: list[tuple[int, int]] = []
        """Of each word its families if the sentence is English, and if it is not."""
        self.before = ""
        self.is_order = True
        """Whether a verb that comes next would be an imperative."""
        self.seen = 0
        self.foreign_words = 0
        self.is_latin = True

    def add(self, word: str) -> None:
        english, foreign = families_of(word)
        self.foreign_words += word in FUNCTION_WORDS
        self.is_latin = self.is_latin and word[0] < NOT_LATIN
        if self.before:
            english |= lexicon().english.get(f"{self.before}_{word}", 0)  # "api key"
        if english & _ACTS and any(one & F.NOT for one, _ in self.words[-2:]):
            english &= ~(
                _ACTS if not english & _SPEAKS else _ACTS & ~F.VERB
            )  # "do not skip", "never send": nothing is asked for
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
        self.words += _PAUSE * 3 if is_unspaced else _PAUSE

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
        """Whether function words say so, or, if they do not, most of the words that are known."""
        ours = sum(bool(english & F.ENGLISH) for english, _ in self.words)
        if not self.is_latin:
            return ours >= max(self.foreign_words, _ENGLISH_WORDS)
        if ours != self.foreign_words:
            return ours > self.foreign_words
        known = sum(bool(english) for english, _ in self.words)
        return known >= sum(bool(foreign and not english) for english, foreign in self.words)


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a plain reading that have words."""
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
        draft.words += [(0, families[found[0]]) for found in pattern.finditer(token)]
    elif kind == "path":
        draft.add_sign(SECRET if SECRET_FILE.search(token) else F.PRIVATE)
    elif kind == "label":
        draft.add_sign(F.LABEL, is_order=True)
    elif kind == "quoted":
        is_file = SECRET_FILE.search(token)
        draft.add_sign(SECRET if is_file else F.NAME)
    elif not _SAMPLE.search(token):
        draft.add_sign(F.ADDRESS)
