"""What a reading says: orders to a model, told apart from words about such orders."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from discovery_engine.scanner.findings import Severity
from discovery_engine.scanner.fragments import Phrase
from discovery_engine.scanner.unmistakable import UNMISTAKABLE
from discovery_engine.scanner.wordings import WORDINGS


class Match(Struct, frozen=True):
    phrase: Phrase
    start: int
    end: int
    severity: Severity


_PHRASES = (*UNMISTAKABLE, *WORDINGS)

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
    for phrase in _PHRASES:
        if found := phrase.pattern.search(text):
            severity = Severity.NOTICE if _is_talk(text, found.start()) else phrase.severity
            yield Match(phrase, found.start(), found.end(), severity)


def _is_talk(text: str, at: int) -> bool:
    """Whether the sentence up to `at` announces an example."""
    start = 0
    for end in _SENTENCE_END.finditer(text, max(0, at - 400), at):
        start = end.end()
    return bool(_TALK.search(text, start, at))
