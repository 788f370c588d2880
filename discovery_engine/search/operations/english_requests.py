"""What an English request asks for: the operation, and whether of many things.

The first words decide: a verb, a question, or neither; words of asking before them are passed over.
A request of several sentences says what to do in the last one that begins with a verb.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from discovery_engine.search.operations.operation import CHANGING, Operation
from discovery_engine.search.operations.operation_words import operation_words
from discovery_engine.search.operations.tool_profile import is_plural
from discovery_engine.search.text.spelling import single_edits
from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from discovery_engine.search.text.lexicon import Lexicon

SHOWN = int(Operation.READ | Operation.LIST | Operation.SEARCH)
ASKED = SHOWN | int(Operation.COUNT | Operation.COMPUTE)
_READ = int(Operation.READ)
_LISTED = int(Operation.LIST)
_CREATED = int(Operation.CREATE)
_CHANGED = int(CHANGING)
_QUESTIONS = frozenset(
    (
        *("what", "whats", "which", "who", "whos", "whose", "where", "wheres", "when", "why"),
        *("how", "is", "are", "does", "do", "did", "has", "have", "was", "were", "any", "am"),
        "will",
    )
)
_COUNTING = "number of"
_POLITE = re.compile(
    r"(?:can|could|would|will) (?:you|u|we|i|someone|somebody)"
    r"(?: (?:please|kindly|just|quickly|maybe))*\s"
    r"|(?:please|pls|plz|kindly|hey|hi|hello|ok|okay|so|now|then|and|also|just|quickly|first"
    r"|finally|next)[,:]?\s"
    r"|i (?:really )?(?:need|want|would like|wanna|have|wish|am trying|am going)(?: you)? to "
    r"(?:be able to )?"
    r"|i['\u2019]?d (?:like|love|want)(?: you)? to "
    r"|(?:we|you) (?:need|want|have|should|must)(?: you)?(?: to)? "
    r"|(?:help|let) (?:me|us)(?: to)? |let['\u2019]?s |go (?:ahead and |and )?"
    r"|make sure (?:to |that )?"
    r"|(?:is it possible to|is there (?:a|any) way to|how (?:can|do|could) i|how to"
    r"|what tool can|a tool (?:to|that can|for)|i(?:['\u2019]| a)m (?:looking|trying) to)\s",
    re.IGNORECASE,
)
_NEED = re.compile(
    r"(?:i|we) (?:need|want|require|['\u2019]?d like|would like|wish) (?!to\b|you\b)"
    r"|(?:give|get|show|tell|send) (?:me|us) ",
    re.IGNORECASE,
)
_PARTICIPLE = ("ed", "ing", "en")
_INFLECTED = (*_PARTICIPLE, "s")
_TERSE = 5  # words
_NEW = frozenset(("a", "an", "some", "another", "new"))
_DETERMINERS = frozenset(
    (
        *("a", "an", "the", "this", "that", "these", "those", "my", "our", "your", "his", "her"),
        *("its", "their", "me", "us", "it", "them", "all", "every"),
    )
)
_PREPOSITIONS = frozenset(("of", "for", "by", "in", "on", "about", "at", "from", "with", "to"))
_BEFORE_VERB = frozenset(
    (
        *("to", "and", "then", "can", "could", "you", "we", "i", "please", "let", "now", "just"),
        *("not", "don", "t", "should", "must"),
    )
)
_MANY = frozenset(
    ("all", "every", "each", "these", "those", "multiple", "many", "several", "both", "list")
)
_SHORTEST_TYPO = 4  # letters
_SENTENCE_END = re.compile(r"(?<=[.!?;:\n])\s+")
_MOST_SENTENCES = 12
_LONG = 200  # characters; such a request asks for several things, and its verb is less certain


Stem: TypeAlias = "Callable[[str], str]"


class Wish(NamedTuple):
    operations: int
    """An `Operation`, one of several if it is not certain."""
    is_explicit: bool
    """Whether a verb or a question says so; otherwise it is a guess."""
    is_of_many: bool | None
    """Whether words are in the plural, or `all`; None if that cannot be seen."""


def read_english(intent: str, lexicon: Lexicon, unknown: Container[str]) -> Wish:
    """What a request asks for; a verb among its `unknown` words is one with a typo."""
    stem, is_stop_word = lexicon.stem, lexicon.is_stop_word
    sentences = _SENTENCE_END.split(intent.strip())[-_MOST_SENTENCES:]
    is_alone = len(sentences) == 1
    operations, is_explicit, many = 0, False, False
    for sentence in reversed(sentences):
        asked = _stripped(sentence)
        shown = _NEED.match(asked)
        said = words(asked[shown.end() :] if shown else asked)
        if not said:
            continue
        found, is_clear = (
            _wished(said, stem) if shown else _head(said, stem, unknown, is_alone=is_alone)
        )
        if not operations or (is_clear and not is_explicit):
            operations, is_explicit = found, is_clear
            many = any(w in _MANY or (is_plural(w) and not is_stop_word(w)) for w in said)
        if is_clear or shown:
            break
    if many and operations == _READ:
        operations |= _LISTED
    return Wish(operations, is_explicit and is_alone and len(intent) < _LONG, many)


def _wished(said: Sequence[str], stem: Stem) -> tuple[int, bool]:
    """What `show me …` and `I want …` ask for: `the bill` to see, `a bill` to make, `it locked`."""
    verbs = operation_words().verbs
    done = [w for w in said[1:] if w.endswith(_PARTICIPLE)]
    for word in done:
        if found := verbs.get(stem(word), 0):
            return found | SHOWN, False
    return (SHOWN | _CREATED if said[0] in _NEW else SHOWN), False


def _head(
    said: Sequence[str], stem: Stem, unknown: Container[str], *, is_alone: bool
) -> tuple[int, bool]:
    """What a request asks for that begins with a verb, with a question, or with a noun."""
    verbs, nouns, phrases = operation_words()
    first, *others = said
    if first in _QUESTIONS or " ".join(said[:2]) == _COUNTING:
        return ASKED, True
    if len(said) > 1 and (found := phrases.get((stem(first), stem(said[1])), 0)):
        return found, True
    is_base = not first.endswith(_PARTICIPLE)
    is_mistyped = first in unknown and bool(others) and others[0] not in _PREPOSITIONS
    guessed = _mistyped(first, stem) if is_mistyped else 0
    if is_base and (found := verbs.get(stem(first), guessed)):
        return found, True
    if is_base and others and others[0] in _DETERMINERS:
        return nouns.get(stem(first), _CHANGED), False
    if others and others[0] not in _PREPOSITIONS and (found := nouns.get(stem(first), 0)):
        return found | SHOWN, False
    inner = 0
    for before, word in pairwise(said):
        if before in _BEFORE_VERB or (len(said) <= _TERSE and not word.endswith(_INFLECTED)):
            inner |= verbs.get(stem(word), 0)
    return inner or SHOWN, not inner and is_alone and len(said) <= _TERSE


def _mistyped(word: str, stem: Stem) -> int:
    verbs = operation_words().verbs
    if len(word) < _SHORTEST_TYPO:
        return 0
    return max((verbs[w] for w in single_edits(stem(word)) if w in verbs), default=0)


def _stripped(asked: str) -> str:
    while True:
        asked = asked.strip()
        shorter = _POLITE.sub("", asked, count=1) if _POLITE.match(asked) else asked
        if shorter == asked:
            return asked
        asked = shorter
