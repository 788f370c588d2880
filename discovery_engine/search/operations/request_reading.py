"""The reading of requests: the operation, of one thing or of many, and its arguments.

could you please delete the branch     delete; words of asking are passed over
show me my open invoices               read, list or search, many
what time is it in Tokyo               read, list, search, count or compute
pull requests by ana                   a noun phrase: most probably read, list or search
ブランチを削除して                        delete: in Japanese and Korean the verb is last
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.search.operations.english_requests import (
    ASKED,
    SHOWN,
    Wish,
    asking_clauses,
    excluded,
    read_english,
)
from discovery_engine.search.operations.operation import (
    Argument,
    ArgumentKind,
    Operation,
    find_arguments,
    find_names,
    operation_words,
)
from discovery_engine.search.text.tokenizer import is_unspaced, runs, words

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from discovery_engine.search.text.languages import Language
    from discovery_engine.search.text.lexicon import Lexicon

_IDENTIFYING = int(ArgumentKind.IDENTIFIER | ArgumentKind.NUMBER | ArgumentKind.PATH)
_BY_CHANCE = (
    ArgumentKind.QUOTE
    | ArgumentKind.PATH
    | ArgumentKind.EMAIL
    | ArgumentKind.REPOSITORY
    | ArgumentKind.PERSON
    | ArgumentKind.CHANNEL
)
_READ = int(Operation.READ)
_QUESTION_MARKS = ("?", "\uff1f")
_SHORT = 200
_SENTENCE_END = lazy_pattern(r"[.!?;\n]\s")
_VERB_LAST = frozenset(("ja", "ko"))
_VERB_AT_EDGE = frozenset(("de", "nl"))
_CHINESE = "zh"
_ENGLISH = "en"
_EDGES = " ,;:\uff0c\u3001"
_CAPITALIZES_NOUNS = "de"


class RequestReading(NamedTuple):
    operations: int
    """An `Operation`: what is asked for, one of several if it is not certain."""
    is_explicit: bool
    """True if a verb or a question says so; otherwise it is a guess."""
    is_of_many: bool | None
    """True if words are in the plural, or `all`; None if that cannot be seen."""
    is_of_one: bool
    """An argument identifies the one thing that it is about."""
    is_single: bool
    """True for one sentence; several may be about several tools, each with its arguments."""
    is_short: bool
    """One sentence of no more than `_SHORT` characters: it is about one thing, or one kind."""
    given: int
    """An `ArgumentKind`: of the arguments."""
    arguments: tuple[Argument, ...]
    text: str
    """The text that was read."""


def read_request(
    text: str, lexicon: Lexicon, language: Language | None, unknown: Container[str] = ()
) -> RequestReading:
    """Read a request in `language`; its `unknown` words are those that no tool has."""
    arguments = find_arguments(text)
    intent = without(text, arguments)
    if not (language and language.code == _CAPITALIZES_NOUNS):
        names = find_names(_masked(text, arguments))
        arguments = tuple(sorted((*arguments, *names), key=attrgetter("start")))
    kinds = 0
    for argument in arguments:
        kinds |= int(argument.kind)
    if language or (not intent.isascii() and any(map(is_unspaced, runs(intent)))):
        wish = _read_foreign(intent, lexicon, language)
    else:
        wish = read_english(intent, lexicon, unknown)
    is_of_one = bool(kinds & _IDENTIFYING) and not wish.is_of_many
    is_single = is_one_sentence(intent)
    is_short = is_single and len(intent) <= _SHORT
    return RequestReading(*wish, is_of_one, is_single, is_short, kinds, arguments, text)


def wanted_part(text: str, language: Language | None) -> str:
    """A request without what it says it does not want, unless it says nothing else.

    Quoted text says nothing of the kind.
    """
    code = _code(text, language)
    if not excluded(text, code):
        return text
    by_chance = [argument for argument in find_arguments(text) if argument.kind & _BY_CHANCE]
    masked = _masked(text, by_chance)
    parts, at = [], 0
    for start, end in excluded(masked, code):
        parts.append(text[at:start])
        at = end
    remainder = " ".join((*parts, text[at:])).strip(_EDGES)
    return remainder if words(remainder) else text


def _code(text: str, language: Language | None) -> str:
    if language:
        return language.code
    is_chinese = not text.isascii() and any(map(is_unspaced, runs(text)))
    return _CHINESE if is_chinese else _ENGLISH


def is_one_sentence(text: str) -> bool:
    return not _SENTENCE_END.search(text.strip())


def without(text: str, arguments: Sequence[Argument]) -> str:
    """A request with a blank for each argument."""
    parts, at = [], 0
    for argument in arguments:
        parts.append(text[at : argument.start])
        at = argument.end
    return " ".join((*parts, text[at:])) if parts else text


def _masked(text: str, arguments: Sequence[Argument]) -> str:
    """A request with underscores for its arguments; all else is where it was."""
    for _, start, end in arguments:
        text = text[:start] + "_" * (end - start) + text[end:]
    return text


def _read_foreign(intent: str, lexicon: Lexicon, language: Language | None) -> Wish:
    """Read a request in another language; for Chinese, `language` is None."""
    code = language.code if language else _CHINESE
    asking = asking_clauses(intent, code)
    if not asking:
        return Wish(0, is_explicit=False, is_of_many=None)
    verbs = list(_verbs(asking, lexicon, language))
    if not verbs:
        return Wish(ASKED, is_explicit=False, is_of_many=None)
    is_last = code in _VERB_LAST or (code in _VERB_AT_EDGE and not verbs[0].is_first)
    operations = verbs[-1 if is_last else 0].operations
    if intent.rstrip().endswith(_QUESTION_MARKS):
        return Wish(operations | ASKED, is_explicit=False, is_of_many=None)
    # To show or to get may be to list.
    return Wish(
        operations | SHOWN if operations == _READ else operations, is_explicit=True, is_of_many=None
    )


class _Verb(NamedTuple):
    operations: int
    is_first: bool
    """True if no other word stands before it."""


def _verbs(intent: str, lexicon: Lexicon, language: Language | None) -> Iterator[_Verb]:
    verbs = operation_words().verbs
    for at, token in enumerate(lexicon.tokens(intent, language)):
        operations = 0
        for word in token.english if token.is_translated else ():
            operations |= verbs.get(lexicon.stem(word), 0)
        if operations:
            yield _Verb(operations, at == 0)


def intent_of(text: str, arguments: Sequence[Argument]) -> str:
    """A request without the arguments whose words are there by chance.

    The words of an address or an identifier may say which product is meant, and the ending of a
    path which kind of file.
    """
    by_chance = [argument for argument in arguments if argument.kind & _BY_CHANCE]
    paths = (argument.text(text) for argument in by_chance if argument.kind is ArgumentKind.PATH)
    endings = (path.rpartition(".")[2] for path in paths)
    return " ".join((without(text, by_chance), *endings))
