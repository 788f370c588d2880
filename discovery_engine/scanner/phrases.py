"""What a reading says: orders to a model, told apart from words about such orders."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from discovery_engine.scanner.findings import Severity
from discovery_engine.scanner.fragments import NO_WORDS, Phrase
from discovery_engine.scanner.unmistakable import UNMISTAKABLE
from discovery_engine.scanner.wordings import WORDINGS


class Match(Struct, frozen=True):
    phrase: Phrase
    start: int
    end: int
    severity: Severity


_PHRASES = (*UNMISTAKABLE, *WORDINGS)
_WORD = re.compile(r"[^\W_]+")

# Words that talk about such orders instead of giving them.
_TALK = re.compile(
    r"\b(?:detects?|classif(?:y|ies)|scans?|blocks?|flags?|reviews?|explains?|reports how"
    r"|labelled|lists the|such as|for instance|for example|e[. ]g"
    r"|(?<![.@/-])examples?(?!\.)|phrases?|payloads?|attempts?|attackers?|attacks?|samples?"
    r"|red-team|warning sign|indicators|research)\b"
)
_SENTENCE_END = re.compile(r"(?<!\be[. ]g)[.!?] |\n")


def matches(text: str) -> Iterator[Match]:
    """What is said in a reading; the first match of each phrase."""
    for phrase in _candidates(text):
        if found := phrase.pattern.search(text):
            severity = Severity.NOTICE if _is_talk(text, found.start()) else phrase.severity
            yield Match(phrase, found.start(), found.end(), severity)


def _candidates(text: str) -> Iterator[Phrase]:
    """The phrases of which a text has a word; to search for every phrase takes far longer."""
    words = set(_WORD.findall(text))
    if not text.isascii():
        words.add(NO_WORDS)
    by_word = _numbers_by_word()
    numbers = {number for word in words for number in by_word.get(word, ())}
    return (_PHRASES[number] for number in sorted(numbers))


@cache
def _numbers_by_word() -> Mapping[str, Sequence[int]]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, phrase in enumerate(_PHRASES):
        for word in phrase.said.words or (NO_WORDS,):
            numbers[word].append(number)
    return dict(numbers)


def _is_talk(text: str, at: int) -> bool:
    """Whether the sentence up to `at` announces an example."""
    start = 0
    for end in _SENTENCE_END.finditer(text, max(0, at - 400), at):
        start = end.end()
    return bool(_TALK.search(text, start, at))
