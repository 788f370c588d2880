"""The profile of a tool: what it does, to one thing or to many, and which kinds of values it takes.

Read from the tool's name first; where that has no verb, from the first words of its description.
A parameter such as `action` with a list of values says that the tool does all of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.search.operations.operation import (
    READING,
    Operation,
    Relation,
    relation,
)
from discovery_engine.search.operations.operation_words import operation_words
from discovery_engine.search.operations.request_arguments import ArgumentKind
from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from discovery_engine._util.json import JSONValue
    from discovery_engine.tools.model import Parameter, Tool

_FIRST_WORDS = 3  # of a description, among which its verb is
_FIRST_CHARACTERS = 60  # enough for these
_MANY_WORDS = frozenset(("all", "many", "multiple", "batch", "bulk", "every", "each", "list"))
_ACTIONS = frozenset(("action", "operation", "command", "method", "mode", "op", "verb"))
_CONJUNCTIONS = ("and", "or")
_NOT_PLURAL = ("ss", "us", "is", "ics", "news", "status", "address", "access", "process")
_SHORTEST_PLURAL = 4
_TAKES, _FLAGS = 16, 28  # the bits where these begin in a packed profile
_NAMES = 10_000  # of parameters, whose kinds are cached
_LIST = int(Operation.LIST)
_READING = int(READING)
_READ = int(Operation.READ)
_KIND_NAMES: dict[ArgumentKind, str] = {
    ArgumentKind.URL: "url urls uri link website webpage site href domain endpoint",
    ArgumentKind.PATH: "path paths file files filename filepath directory folder dir document",
    ArgumentKind.EMAIL: "email emails recipient recipients to cc bcc attendees mail sender",
    ArgumentKind.DATE: "date dates time start end since until day month year timestamp due before "
    "after from timezone checkin checkout deadline period",
    ArgumentKind.IDENTIFIER: "id ids key sha hash uuid guid number iid ref code slug token symbol "
    "ticker",
    ArgumentKind.REPOSITORY: "repo repository owner project branch",
    ArgumentKind.PERSON: "user username assignee member person author owner handle login",
    ArgumentKind.CHANNEL: "channel room hashtag",
    ArgumentKind.NAME: "name location city place address country title query person company "
    "language lang author q destination origin keyword",
    ArgumentKind.QUOTE: "text query name title message content body comment description subject "
    "prompt q search note caption term keyword keywords summary label value pattern",
    ArgumentKind.COORDINATES: "latitude longitude lat lon lng coordinates location x y",
}
_KIND_OF_WORD: dict[str, int] = {}
for _kind, _words in _KIND_NAMES.items():
    for _word in _words.split():
        _KIND_OF_WORD[_word] = _KIND_OF_WORD.get(_word, 0) | int(_kind)
_KIND_OF_TYPE = dict.fromkeys(("number", "integer"), int(ArgumentKind.NUMBER))
_FORMATS = {
    "uri": int(ArgumentKind.URL),
    "email": int(ArgumentKind.EMAIL),
    "date": int(ArgumentKind.DATE),
    "date-time": int(ArgumentKind.DATE),
}
_IDENTIFIES = re.compile(r"(?:^|[a-z_-])(?:id|Id|ID|key|Key|sha|uuid|slug|number|iid)$")


class ToolProfile(NamedTuple):
    operations: int
    """An `Operation`: what the tool does, one of several if it is not certain."""
    takes: int
    """An `ArgumentKind`: of the values of its parameters."""
    is_for_many: bool
    is_for_one: bool
    """It needs the identifier of what it is about, and is not for many."""
    has_examples: bool = False
    """True if the index has requests that the tool serves."""
    has_shipped_examples: bool = False
    """True if these are from the shipped pack, which has no requests for most servers."""

    def packed(self) -> int:
        """Return the profile as a number of 32 bits; the index keeps one for each tool."""
        flags = self.is_for_many | self.is_for_one << 1 | self.has_examples << 2
        flags |= self.has_shipped_examples << 3
        return self.operations | self.takes << _TAKES | flags << _FLAGS

    @classmethod
    def unpacked(cls, packed: int) -> ToolProfile:
        flags = packed >> _FLAGS
        return cls(
            packed & (1 << _TAKES) - 1,
            packed >> _TAKES & (1 << _FLAGS - _TAKES) - 1,
            bool(flags & 1),
            bool(flags & 2),
            bool(flags & 4),
            bool(flags & 8),
        )


def read_tool(
    tool: Tool,
    stem: Callable[[str], str],
    *,
    has_examples: bool = False,
    has_shipped_examples: bool = False,
) -> ToolProfile:
    """Read a tool; `has_examples` if requests that it serves are indexed with it."""
    parameters = tool.parameters
    operations, objects = _operations(tool, parameters, stem)
    is_for_many = bool(operations & _LIST) or any(map(_is_many, objects))
    needs_id = any(p.required and _IDENTIFIES.search(p.name) for p in parameters)
    takes = 0
    for parameter in parameters:
        takes |= _kinds(parameter.name, parameter.type, parameter.schema.get("format"))
    is_for_one = needs_id and not is_for_many
    return ToolProfile(
        operations, takes, is_for_many, is_for_one, has_examples, has_shipped_examples
    )


def _operations(
    tool: Tool, parameters: Sequence[Parameter], stem: Callable[[str], str]
) -> tuple[int, list[str]]:
    """Return a tool's operations, and the words of its name that do not say them."""
    said = words(tool.name)
    stems = ["" if is_plural(word) else stem(word) for word in said]
    at, operations = _verb(stems)
    if not operations:
        first = [stem(word) for word in words(tool.description[:_FIRST_CHARACTERS])]
        _, operations = _verb(first[:_FIRST_WORDS])
        if not operations:
            at, operations = _noun(stems)
            operations = operations or _noun(first[:_FIRST_WORDS])[1]
    for choice in _actions(parameters):
        stems = [stem(word) for word in words(choice)]
        operations |= _verb(stems)[1] or _noun(stems)[1]
    return _corrected(operations, tool), [w for i, w in enumerate(said) if i != at]


def _actions(parameters: Sequence[Parameter]) -> Iterator[str]:
    """The values of a parameter that selects what is done."""
    for parameter in parameters:
        if parameter.name.lower() in _ACTIONS:
            choices = parameter.schema.get("enum")
            if isinstance(choices, list):
                yield from (choice for choice in choices if isinstance(choice, str))


def _verb(stems: Sequence[str]) -> tuple[int, int]:
    """Where the verb is, and what it means; -1 and nothing without one."""
    verbs = operation_words().verbs
    for at, stem in enumerate(stems):
        if stem in verbs:
            return at, verbs[stem] | _joined(stems[at + 1 : at + 3], verbs[stem])
    return -1, 0


def _noun(stems: Sequence[str]) -> tuple[int, int]:
    """The same of words that may be nouns; as verbs they stand first or last, most of the time."""
    nouns = operation_words().nouns
    last = len(stems) - 1
    for at in (0, last, *range(1, last)) if stems else ():
        if stems[at] in nouns:
            return at, nouns[stems[at]]
    return -1, 0


def _joined(following: Sequence[str], verb: int) -> int:
    """Return the operations that a second verb adds: `search_and_replace`, `pause_resume`."""
    verbs = operation_words().verbs
    if len(following) > 1 and following[0] in _CONJUNCTIONS:
        return verbs.get(following[1], 0)
    second = verbs.get(following[0], 0) if following else 0
    return second if relation(verb, second) is Relation.OPPOSITE else 0


def _corrected(found: int, tool: Tool) -> int:
    """With what the annotations say; what they say by default counts for nothing."""
    annotations = tool.annotations
    if annotations.get("readOnlyHint") is True and found and not found & _READING:
        return found | _READ
    return found


def _is_many(word: str) -> bool:
    return word in _MANY_WORDS or is_plural(word)


def is_plural(word: str) -> bool:
    return len(word) >= _SHORTEST_PLURAL and word[-1] == "s" and not word.endswith(_NOT_PLURAL)


def _kinds(name: str, type_: str, form: JSONValue) -> int:
    return _kinds_of_name(name) | _KIND_OF_TYPE.get(type_, 0) | _FORMATS.get(str(form), 0)


@lru_cache(_NAMES)
def _kinds_of_name(name: str) -> int:
    kinds = 0
    for word in words(name):
        kinds |= _KIND_OF_WORD.get(word, 0)
    return kinds
