"""Operations and arguments: the typed vocabulary in which requests and tools are compared.

A reading is a set of operations, since words are ambiguous: `save` creates, or downloads. Two
readings are compared by what is between them: the same operation, a kindred one, one that changes
what the other only reads, the opposite.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, IntFlag
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import Stemmer

from discovery_engine._util import digests
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from discovery_engine._util.json import JSONValue
    from discovery_engine.tools.model import Parameter, Tool


class Operation(IntFlag):
    """A set of operations; empty if they are unknown."""

    READ = 1 << 0
    LIST = 1 << 1
    SEARCH = 1 << 2
    COUNT = 1 << 3
    CREATE = 1 << 4
    UPDATE = 1 << 5
    DELETE = 1 << 6
    SEND = 1 << 7
    RUN = 1 << 8
    STOP = 1 << 9
    """Or close, cancel, disable, reject."""
    OPEN = 1 << 10
    """Or enable, accept, restore: the opposite of what `STOP` has."""
    COPY = 1 << 11
    DOWNLOAD = 1 << 12
    """Or export: out of where it is."""
    UPLOAD = 1 << 13
    """Or import: into it."""
    CONVERT = 1 << 14
    COMPUTE = 1 << 15


NOTHING = Operation(0)
ALL = ~NOTHING
READING = (
    Operation.READ
    | Operation.LIST
    | Operation.SEARCH
    | Operation.COUNT
    | Operation.DOWNLOAD
    | Operation.COMPUTE
    | Operation.CONVERT
)
"""The operations that leave things as they are."""
CHANGING = ALL & ~READING
_QUESTION = Operation.READ | Operation.LIST | Operation.SEARCH | Operation.COUNT
_OPPOSITES = (
    (Operation.CREATE, Operation.DELETE),
    (Operation.UPLOAD, Operation.DOWNLOAD),
    (Operation.UPLOAD, Operation.DELETE),
    (Operation.OPEN, Operation.STOP),
    (Operation.OPEN, Operation.DELETE),
    (Operation.SEND, Operation.DELETE),
)
_KINDRED = (
    _QUESTION,
    Operation.CREATE | Operation.UPLOAD | Operation.COPY,
    Operation.CREATE | Operation.SEND,
    Operation.UPDATE | Operation.OPEN | Operation.STOP,
    Operation.UPDATE | Operation.CREATE,
    Operation.DELETE | Operation.STOP,
    Operation.RUN | Operation.OPEN,
    Operation.READ | Operation.DOWNLOAD,
    Operation.READ | Operation.COMPUTE,
    Operation.CONVERT | Operation.DOWNLOAD,
)


class Relation(IntEnum):
    """The relation between the operations of a request and of a tool, the nearest first."""

    SAME = 0
    KINDRED = 1
    """Get and list, create and upload."""
    OTHER = 2
    """Both read or both change, and do something else."""
    CHANGES = 3
    """The request only reads, the tool changes something."""
    READS = 4
    """The request changes something, the tool only reads."""
    OPPOSITE = 5
    UNKNOWN = 6
    """Nothing is known of the request's operation, or of the tool's."""


@cache
def relation(request: int, done: int) -> Relation:
    """Relate the operation that a request asks for to those that a tool does.

    Both are sets of `Operation`; the nearest two count.
    """
    return next(
        kind for kind, holds in _RELATIONS.items() if holds(Operation(request), Operation(done))
    )


def _are_opposite(request: Operation, done: Operation) -> bool:
    return any(
        (operation & request and other & done) or (other & request and operation & done)
        for operation, other in _OPPOSITES
    )


_MAX_SPECIFIC_OPERATIONS = 6
"""Operations; of a tool that does more, it says little that one of them is asked for."""
_RELATIONS: dict[Relation, Callable[[Operation, Operation], object]] = {
    Relation.UNKNOWN: lambda wish, done: not (wish and done),
    Relation.SAME: lambda wish, done: wish & done and done.bit_count() <= _MAX_SPECIFIC_OPERATIONS,
    Relation.OPPOSITE: lambda wish, done: not wish & done and _are_opposite(wish, done),
    Relation.KINDRED: lambda wish, done: (
        wish & done or any(g & wish and g & done for g in _KINDRED)
    ),
    Relation.CHANGES: lambda wish, done: not wish & CHANGING and not done & READING,
    Relation.READS: lambda wish, done: not wish & READING and not done & CHANGING,
    Relation.OTHER: lambda *_: True,
}  # the first that holds


_FILE = Path(__file__).parents[1] / "data" / "operations.txt"


class OperationWords(NamedTuple):
    """The operations that words mean, by the stem of each word."""

    verbs: dict[str, int]
    """Words that are verbs wherever they stand."""
    nouns: dict[str, int]
    """Words that may also be nouns or adjectives."""
    phrases: dict[tuple[str, str], int]
    """Pairs of a verb and the word behind it."""


@cache
def operation_words() -> OperationWords:
    stem = Stemmer.Stemmer("english").stemWord
    vocabulary = OperationWords({}, {}, {})
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, mark, *listed = line.replace(":", " :").split()
            meaning = int(Operation[name.upper()])
            for word in listed:
                first, _, second = word.partition("_")
                if second:
                    pair = stem(first), stem(second)
                    vocabulary.phrases[pair] = vocabulary.phrases.get(pair, 0) | meaning
                else:
                    table = vocabulary.verbs if mark == ":" else vocabulary.nouns
                    table[stem(first)] = table.get(stem(first), 0) | meaning
    for word in vocabulary.verbs.keys() & vocabulary.nouns.keys():
        vocabulary.verbs[word] |= vocabulary.nouns.pop(word)
    return vocabulary


@cache
def operation_words_digest() -> bytes:
    """Return a digest of the table; equal if every tool is read alike."""
    return digests.digest(_FILE.read_bytes())


#     email "see you at 5" to ana@example.org    a quote, an e-mail address
#     open https://example.org/a?b=c             an address
#     commits of acme/shop since 2024-05-01      a repository, a date
#     move PROJ-17 to Ana in #general            an identifier, a name, a channel
#
# An argument says which kind of value a tool must take, and hardly anything of what the tool does:
# a word in it that is another tool's name is there by chance.


class ArgumentKind(IntFlag):
    """A set of kinds of values."""

    URL = 1 << 0
    PATH = 1 << 1
    EMAIL = 1 << 2
    DATE = 1 << 3
    NUMBER = 1 << 4
    QUOTE = 1 << 5
    """Text between quotation marks."""
    IDENTIFIER = 1 << 6
    """An issue's key, a hash, a UUID."""
    REPOSITORY = 1 << 7
    PERSON = 1 << 8
    """@ana"""
    CHANNEL = 1 << 9
    """#general"""
    NAME = 1 << 10
    """A capitalized word within a sentence."""
    COORDINATES = 1 << 11


class Argument(NamedTuple):
    kind: ArgumentKind
    start: int
    """The position of its first character in the request."""
    end: int

    def text(self, request: str) -> str:
        return request[self.start : self.end]


_EXTENSIONS = (
    "csv|tsv|txt|md|json|ya?ml|toml|xml|html?|css|js|ts|tsx|jsx|py|rb|go|rs|java|c|cpp|h|sh|sql|log"
    "|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|webp|mp[34]|wav|mov|zip|tar|gz|ipynb|ini|conf|env|tf"
    "|lock|parquet|db|sqlite|eml|ics"
)
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
# The first that fits at a place counts. Every repetition is bounded or of one kind of character, so
# that a text of a thousand marks takes time in proportion to its length.
_PATTERNS: tuple[tuple[ArgumentKind, tuple[str, ...]], ...] = (
    (
        ArgumentKind.URL,
        (r"\b(?:https?|ftp|s3|git|ssh|postgres|mysql)://[^\s\"'<>)]+", r"\bwww\.[^\s\"'<>)]+"),
    ),
    (ArgumentKind.EMAIL, (r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4}\b",)),
    (
        ArgumentKind.QUOTE,
        (
            r"\"[^\"\n]{1,300}\"",
            r"\u201c[^\u201d\n]{1,300}\u201d",
            r"\u201e[^\u201c\u201d\n]{1,300}[\u201c\u201d]",
            r"\u00ab[^\u00bb\n]{1,300}\u00bb",
            r"\u300c[^\u300d\n]{1,300}\u300d",
            r"`[^`\n]{1,300}`",
            r"(?<!\w)'[^'\n]{1,300}'(?!\w)",
            r"\u2018[^\u2019\n]{1,300}\u2019(?!\w)",
        ),
    ),
    (
        ArgumentKind.DATE,
        (
            r"\b\d{4}-\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?)?\b",
            r"\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b",
            r"\b\d{1,2}:\d{2}\b(?:\s?(?i:[ap]m)\b)?",
            r"\b\d{1,2}\s?(?i:[ap]m)\b",
            rf"\b(?i:{_MONTHS})[a-z]{{0,6}}\s\d{{1,4}}\b",
            rf"\b\d{{1,2}}\s(?i:{_MONTHS})[a-z]{{0,6}}\b",
        ),
    ),
    (ArgumentKind.COORDINATES, (r"-?\b\d{1,3}\.\d{1,9}\s?,\s?-?\d{1,3}\.\d{1,9}\b",)),
    (ArgumentKind.PERSON, (r"(?<![\w@])@[A-Za-z][\w.-]{1,60}",)),
    (ArgumentKind.CHANNEL, (r"(?<![\w#&])#[A-Za-z][\w-]{1,60}",)),
    (
        ArgumentKind.PATH,
        (
            r"(?<!\w)(?:~|\.{1,2})?(?:/[\w.@+-]{1,80}){1,12}/?(?!\w)",
            r"\b[A-Za-z]:\\[^\s\"']{1,200}",
            rf"(?<![\w/])[\w.@+-]{{1,80}}(?:/[\w.@+-]{{1,80}}){{0,12}}\.(?:{_EXTENSIONS})\b",
        ),
    ),
    (
        ArgumentKind.IDENTIFIER,
        (
            r"\b[A-Z][A-Z0-9]{1,9}-\d{1,7}\b",  # PROJ-17
            r"\b[a-z]{1,20}-\d{1,6}\b",  # web-01
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,24}\b",
            r"\b(?=[a-f]{0,39}\d)(?=\d{0,39}[a-f])[0-9a-f]{7,40}\b",
            r"(?<![\w#&])#\d{1,9}\b",
            r"\b(?=[A-Za-z_]{1,40}\d)[A-Za-z]{1,12}_[A-Za-z0-9]{4,40}\b",  # cus_9s6K
            r"\b(?=[A-Za-z]{1,40}\d)[A-Za-z0-9]{2,40}[a-z0-9][A-Z][A-Za-z0-9]{1,40}\b",
            r"\b(?=[A-Z]{0,20}\d)(?=\d{0,20}[A-Z])[A-Z0-9]{5,20}\b",
            r"\b\d{4}\.\d{4,5}\b",  # of arXiv
        ),
    ),
    (
        ArgumentKind.REPOSITORY,
        (r"(?<![\w/.])[A-Za-z][\w.-]{1,40}/[A-Za-z][\w.-]{1,60}(?![\w/])",),
    ),
    (ArgumentKind.NUMBER, (r"(?<![\w.])[-+$\u20ac]?\d[\d.,]{0,20}%?(?!\w)",)),
)
_ARGUMENT = lazy_pattern(
    "|".join(f"(?P<{kind.name}>{'|'.join(patterns)})" for kind, patterns in _PATTERNS)
)
_KINDS = dict(ArgumentKind.__members__)
_MAY_HOLD = lazy_pattern(r"[\d\"'`/@#.\u2018\u201c\u201e\u00ab\u300c]")
_NAME = lazy_pattern(r"(?<=[a-z,;:] )[A-Z][\w'-]*[a-z](?: (?:de |of |la )?[A-Z][\w'-]*)*")
_SLASHED = lazy_pattern(r"[A-Za-z]+/[A-Za-z]+\Z")
_ALTERNATIVES = frozenset(("and/or", "read/write", "input/output", "tcp/ip", "ci/cd", "on/off"))


def find_arguments(request: str) -> tuple[Argument, ...]:
    """The arguments of a request, in order; names are not among them."""
    if not _MAY_HOLD.search(request):
        return ()
    return tuple(_arguments(request))


def find_names(request: str) -> tuple[Argument, ...]:
    """Capitalized words within a sentence; many are the names of products."""
    if request.islower():
        return ()
    return tuple(Argument(ArgumentKind.NAME, *m.span()) for m in _NAME.finditer(request))


def _arguments(request: str) -> Iterator[Argument]:
    for match in _ARGUMENT.finditer(request):
        text = match[0]
        if _SLASHED.match(text) and text.lower() in _ALTERNATIVES:
            continue
        yield Argument(_KINDS[match.lastgroup or ""], *match.span())


# Read from the tool's name first; where that has no verb, from the first words of its description.
# A parameter such as `action` with a list of values says that the tool does all of them.

_FIRST_WORDS = 3  # of a description, among which its verb is
_FIRST_CHARACTERS = 60  # enough for these
_MANY_WORDS = frozenset(("all", "many", "multiple", "batch", "bulk", "every", "each", "list"))
_ACTIONS = frozenset(("action", "operation", "command", "method", "mode", "op", "verb"))
_CONJUNCTIONS = ("and", "or")
_NOT_PLURAL = ("ss", "us", "is", "ics", "news", "status", "address", "access", "process")
_SHORTEST_PLURAL = 4
_TAKES, _FLAGS = 16, 28  # the bits where these begin in a packed profile
ELSEWHERE = 1 << _FLAGS + 4
"""The bit of `is_elsewhere`."""
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
_IDENTIFIES = lazy_pattern(r"(?:^|[a-z_-])(?:id|Id|ID|key|Key|sha|uuid|slug|number|iid)$")


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
    is_elsewhere: bool = False
    """True if the request at hand names other servers; never in an index."""

    def packed(self) -> int:
        """Return the profile as a number; the index keeps its 32 bits for each tool."""
        flags = self.is_for_many | self.is_for_one << 1 | self.has_examples << 2
        flags |= self.has_shipped_examples << 3 | self.is_elsewhere << 4
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
            bool(flags & 16),
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
    """The position of the first verb and its operations; -1 and 0 without a verb."""
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


def _corrected(kinds: int, tool: Tool) -> int:
    """Correct operations by a tool's annotations; values that are the default count for nothing."""
    annotations = tool.annotations
    if annotations.get("readOnlyHint") is True and kinds and not kinds & _READING:
        return kinds | _READ
    return kinds


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
