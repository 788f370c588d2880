"""The reading of English requests: the operation asked for, and whether of many things.

The first words decide: a verb, a question, or neither; words of asking before them are passed over,
as are conditions and what is not to be done. Some words begin questions and orders: `do we have
backups`, `do a backup`. A request of several sentences says what to do in the last one that begins
with a verb.
"""

from __future__ import annotations

import re
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from discovery_engine.search.operations.operation import CHANGING, Operation
from discovery_engine.search.operations.operation_words import operation_words
from discovery_engine.search.operations.request_clauses import asking_clauses
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
_MADE = int(Operation.CREATE | Operation.RUN)
_QUESTIONS = frozenset(
    (
        *("what", "whats", "which", "who", "whos", "whose", "wheres", "why"),
        *("how", "is", "are", "does", "did", "has", "was", "were", "any", "am"),
        "will",
    )
)
_DO, _HAVE = "do", "have"  # begin a question before its subject, else an order
_SUBJECTS = frozenset(("i", "we", "you", "u", "they", "there", "any", "anyone", "anybody"))
_STATES = frozenset(("exist", "have", "been"))  # do the pods exist, have the tests been run
_CIRCUMSTANCES = frozenset(("when", "where"))
_INVERTED = frozenset(
    (
        *("s", "is", "are", "was", "were", "am", "do", "does", "did", "will", "would", "can"),
        *("could", "should", "shall", "may", "might", "must", "has", "have", "had"),
    )
)
_OBJECTS = frozenset(("it", "them", "me", "us"))
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
    r"|(?:do not|don['\u2019]?t) (?:forget|hesitate|fail|neglect) to |(?:have|need|want) to "
    r"|do (?:me|us) a favou?r(?: and)?,?\s|why (?:not|don['\u2019]?t (?:you|we)) "
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
        *("should", "must"),
    )
)
_MANY = frozenset(
    ("all", "every", "each", "these", "those", "multiple", "many", "several", "both", "list")
)
_SHORTEST_TYPO = 4  # letters
_SENTENCE_END = re.compile(r"(?<=[.!?;:\n])\s+")
_MOST_SENTENCES = 12
_ENGLISH = "en"
_LONG = 200  # characters; such a request asks for several things, and its verb is less certain


Stem: TypeAlias = "Callable[[str], str]"


class Wish(NamedTuple):
    operations: int
    """An `Operation`, one of several if it is not certain."""
    is_explicit: bool
    """True if a verb or a question says so; otherwise it is a guess."""
    is_of_many: bool | None
    """True if words are in the plural, or `all`; None if that cannot be seen."""


def read_english(intent: str, lexicon: Lexicon, unknown: Container[str]) -> Wish:
    """Read what a request asks for; a verb may have a typo if it is among the `unknown` words."""
    stem, is_stop_word = lexicon.stem, lexicon.is_stop_word
    sentences = _SENTENCE_END.split(intent.strip())[-_MOST_SENTENCES:]
    is_alone = len(sentences) == 1
    operations, is_explicit, many = 0, False, False
    for sentence in reversed(sentences):
        clauses = asking_clauses(sentence, _ENGLISH)
        request = _stripped(clauses)
        need = _NEED.match(request)
        said = words(request[need.end() :] if need else request)
        if not said:
            continue
        if need:
            meaning, is_clear = _wished(said, stem)
        elif _is_question(said, stem, has_mark=request == clauses and request.endswith("?")):
            meaning, is_clear = ASKED, True
        else:
            meaning, is_clear = _ordered(said, stem, unknown, is_alone=is_alone)
        if not operations or (is_clear and not is_explicit):
            operations, is_explicit = meaning, is_clear
            many = any(w in _MANY or (is_plural(w) and not is_stop_word(w)) for w in said)
        if is_clear or need:
            break
    if many and operations == _READ:
        operations |= _LISTED
    return Wish(operations, is_explicit and is_alone and len(intent) < _LONG, many)


def _wished(said: Sequence[str], stem: Stem) -> tuple[int, bool]:
    """Read what follows `show me` or `I want`: `the bill` to see, `a bill` to make, `it locked`."""
    verbs = operation_words().verbs
    done = [w for w in said[1:] if w.endswith(_PARTICIPLE)]
    for word in done:
        if operations := verbs.get(stem(word), 0):
            return operations | SHOWN, False
    return (SHOWN | _CREATED if said[0] in _NEW else SHOWN), False


def _ordered(
    said: Sequence[str], stem: Stem, unknown: Container[str], *, is_alone: bool
) -> tuple[int, bool]:
    """Read a request that is no question, although it may begin like one."""
    first, *others = said
    if first in _CIRCUMSTANCES:
        return ASKED, False
    if others and (first == _DO or (first == _HAVE and others[0] in _NEW)):
        return _done(others, stem)
    if others and first == _HAVE:
        return _had(others, stem)
    return _head(said, stem, unknown, is_alone=is_alone)


def _head(
    said: Sequence[str], stem: Stem, unknown: Container[str], *, is_alone: bool
) -> tuple[int, bool]:
    """Read a request that begins with a verb or with a noun."""
    verbs, nouns, phrases = operation_words()
    first, *others = said
    if len(said) > 1 and (operations := phrases.get((stem(first), stem(said[1])), 0)):
        return operations, True
    is_base = not first.endswith(_PARTICIPLE)
    is_mistyped = first in unknown and bool(others) and others[0] not in _PREPOSITIONS
    guessed = _mistyped(first, stem) if is_mistyped else 0
    if is_base and (operations := verbs.get(stem(first), guessed)):
        return operations, True
    if is_base and others and others[0] in _DETERMINERS:
        return nouns.get(stem(first), _CHANGED), False
    if others and others[0] not in _PREPOSITIONS and (operations := nouns.get(stem(first), 0)):
        return operations | SHOWN, False
    inner = 0
    for before, word in pairwise(said):
        if before in _BEFORE_VERB or (len(said) <= _TERSE and not word.endswith(_INFLECTED)):
            inner |= verbs.get(stem(word), 0)
    return inner or SHOWN, not inner and is_alone and len(said) <= _TERSE


def _is_question(said: Sequence[str], stem: Stem, *, has_mark: bool) -> bool:
    first, second, third = (*said[:3], "", "")[:3]
    if first in (_DO, _HAVE):
        return (
            second in _SUBJECTS
            or not _STATES.isdisjoint(said[2:])
            or (has_mark and second not in _NEW)
        )
    if first in _CIRCUMSTANCES and second not in _INVERTED:  # when the build fails restart it
        verbs = operation_words().verbs
        return not any(verbs.get(stem(word), 0) & _CHANGED for word in said[1:])
    return (
        first in _QUESTIONS
        or first in _CIRCUMSTANCES
        or (first == "don" and second == "t" and third in _SUBJECTS)
        or " ".join(said[:2]) == _COUNTING
    )


def _done(said: Sequence[str], stem: Stem) -> tuple[int, bool]:
    """Read `do a backup of the database`, `have a look at it`, `do delete it` and the like."""
    verbs, nouns, _ = operation_words()
    thing = [*takewhile(lambda word: word not in _PREPOSITIONS, said)]
    # A verb may follow a plural, which makes it a question: do the tests pass.
    is_certain = said[0] in _NEW or not any(map(is_plural, thing[:-1]))
    if operations := verbs.get(stem(said[0]), 0):
        return operations, is_certain
    for word in reversed(thing):
        if operations := verbs.get(stem(word), 0):
            return operations, is_certain
        if operations := nouns.get(stem(word), 0):
            return operations | _MADE, is_certain
    return _CHANGED, False


def _had(said: Sequence[str], stem: Stem) -> tuple[int, bool]:
    """Read `have ana review the draft`, `have it deleted` and the like."""
    verbs, nouns, _ = operation_words()
    after_subject = 2 if said[0] in _DETERMINERS - _OBJECTS else 1
    for word, behind in pairwise((*said[after_subject:], "")):
        if operations := verbs.get(stem(word), 0):
            return (operations | SHOWN, False) if word.endswith(_PARTICIPLE) else (operations, True)
        if behind in _DETERMINERS:
            return nouns.get(stem(word), _CHANGED), False
    return ASKED, False


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
