"""The arguments in a request, apart from what it asks for.

    email "see you at 5" to ana@example.org    a quote, an e-mail address
    open https://example.org/a?b=c             an address
    commits of acme/shop since 2024-05-01      a repository, a date
    move PROJ-17 to Ana in #general            an identifier, a name, a channel

An argument says which kind of value a tool must take, and hardly anything of what the tool does: a
word in it that is another tool's name is there by chance.
"""

from __future__ import annotations

import re
from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    """Where it starts in the request."""
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
_ARGUMENT = re.compile(
    "|".join(f"(?P<{kind.name}>{'|'.join(patterns)})" for kind, patterns in _PATTERNS)
)
_KINDS = dict(ArgumentKind.__members__)
_MAY_HOLD = re.compile(r"[\d\"'`/@#.\u2018\u201c\u201e\u00ab\u300c]")
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][\w'-]*[a-z](?: (?:de |of |la )?[A-Z][\w'-]*)*")
_SLASHED = re.compile(r"[A-Za-z]+/[A-Za-z]+\Z")
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
