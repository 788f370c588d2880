"""Redacted excerpts of a configuration: a line with a caret below it.

Everything that may be a secret is redacted. In a tree, these are all values but those under keys
known as harmless, and plain words under misspelt ones; in a text that is no YAML, all words but the
keys of the configuration. Unknown keys are redacted, too: a secret may stand in place of a key.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from operator import itemgetter
from typing import TypeAlias

from discovery_engine._util.suggestions import closest
from discovery_engine._util.text import columns_of
from discovery_engine.config.document.tree import Document, Fault, Node, Path, Position
from discovery_engine.secrets.references import REDACTED
from discovery_engine.secrets.secret_names import NameKind

NAME_LIKE = re.compile(rf"[^\s\"=,{{}}\[\]{REDACTED}]{{1,200}}")
"""Matches every valid key but the names of servers, and no redacted key."""

# The usual spelling of variables and headers, required of a key without a value.
_USUAL = re.compile(r"[A-Z][A-Z0-9_]*|[A-Z][a-z]+(-[A-Z][a-z]+)*")


class _Place(Enum):
    """The place of a mapping, which decides which keys are safe."""

    TOP = auto()
    SERVERS = auto()
    ENTRY = auto()
    NAMES = auto()
    """The mapping of `env` or `headers`."""
    OVERRIDES = auto()
    """The list of `overrides`, or an entry of it."""
    ARGUMENTS = auto()
    PINNED = auto()
    """A value in `arguments`, with any keys."""
    VALUE = auto()
    """A place for no mapping."""
    OTHER = auto()


_BELOW = {
    _Place.TOP: {
        "discovery": _Place.TOP,
        "servers": _Place.SERVERS,
        "overrides": _Place.OVERRIDES,
    },
    _Place.OVERRIDES: {"arguments": _Place.ARGUMENTS},
    _Place.ENTRY: {
        "env": _Place.NAMES,
        "headers": _Place.NAMES,
        **dict.fromkeys(("command", "args", "cwd", "url"), _Place.VALUE),
    },
}
_ALWAYS_BELOW = {
    _Place.OVERRIDES: _Place.OVERRIDES,
    _Place.ARGUMENTS: _Place.PINNED,
    _Place.PINNED: _Place.PINNED,
    _Place.SERVERS: _Place.ENTRY,
    _Place.NAMES: _Place.VALUE,
    _Place.VALUE: _Place.VALUE,
}


def redact_keys(root: Node, words: frozenset[str]) -> None:
    """Redact every key below `root` that may be a secret; `words` are the configuration's keys."""
    _conceal(root, words, _Place.TOP)


def redacted_path(path: Path) -> str:
    """Return a key path for display; a server's name is shown as it is, whatever it contains."""
    names_server = path[:1] == ("servers",)
    return ".".join(
        str(step) if number == 1 and names_server else _shown_step(step)
        for number, step in enumerate(path)
    )


def _shown_step(step: str | int) -> str:
    return str(step) if isinstance(step, int) or NAME_LIKE.fullmatch(step) else REDACTED


def _conceal(node: Node, words: frozenset[str], place: _Place) -> None:
    for key, member in node.children():
        below = _BELOW.get(place, {}).get(str(key)) or _ALWAYS_BELOW.get(place, _Place.OTHER)
        _conceal(member, words, below)
        member.is_key_redacted = not (
            isinstance(key, int) or key in words or _is_safe(key, member, place)
        )
    if isinstance(node.value, dict) and place is not _Place.PINNED:
        node.value = {
            f"{REDACTED}{number}" if member.is_key_redacted else key: member
            for number, (key, member) in enumerate(node.value.items(), 1)
        }


def _is_safe(key: str, member: Node, place: _Place) -> bool:
    if place in (_Place.SERVERS, _Place.VALUE):
        return place is _Place.SERVERS
    return bool((_USUAL if member.is_null else NAME_LIKE).fullmatch(key))


_Span: TypeAlias = tuple[int, int]

_WIDTH = 100  # columns
_WORD = re.compile(r"[^\s:,\[\]{}\"'#-]+")
_COMMENT = re.compile(r"(^|\s)#.*")
_MAY_HOLD_SECRETS = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "annotations", "arguments"}
    | {"apiKey", "api_key", "clientSecret", "client_secret", "secret"}
)
_ALIKE = 0.75  # of 1: `passw` is nearer to `password` than to `passEnv`
_MOST_COMPARED = 100  # unknown keys that are compared with ours; a file may have 100,000
_PLAIN = re.compile(r"[A-Za-z_*?!.-]{1,40}")  # a word or a pattern, but no token


class Excerpts:
    """Cuts excerpts out of a document with faults; `words` are the configuration's keys."""

    def __init__(self, document: Document, faults: Iterable[Fault], words: frozenset[str]) -> None:
        self._lines = document.lines
        self._words = words
        self._harmless = words - _MAY_HOLD_SECRETS
        self._is_broken = document.is_broken
        self._compared = 0
        self._hidden: dict[int, list[_Span]] = {}
        if document.root and not document.is_broken:
            self._hide(self._doubtful(document.root, harmless=True))
        for fault in faults:
            if fault.dropped:
                dropped = self._doubtful(fault.dropped, harmless=False)
                is_misspelt = fault.code == "CONFIG_UNKNOWN_KEY" and self._is_misspelt(fault)
                self._hide(
                    n for n in dropped if not (is_misspelt and _PLAIN.fullmatch(str(n.value)))
                )
        self._hidden = {line: _disjoint(spans) for line, spans in self._hidden.items()}

    def at(self, position: Position) -> str:
        """Return the excerpt at a position; empty if the document has no such line."""
        if not 0 < position.line <= len(self._lines):
            return ""
        line = self._lines[position.line - 1]
        column = min(position.column, len(line) + 1) - 1
        start = max(0, column - _WIDTH // 2)
        piece = line[start : start + _WIDTH]
        spans = self._words_of(piece) if self._is_broken else self._spans(position.line, start)
        excerpt, column = _with_hidden(piece, spans, column - start)
        excerpt = "".join(char if char.isprintable() else " " for char in excerpt)
        return f"{_COMMENT.sub('', excerpt).rstrip()}\n{' ' * columns_of(excerpt[:column])}^"

    def _doubtful(self, node: Node, *, harmless: bool) -> Iterator[Node]:
        """Yield the scalars below a key that is not known as harmless, at any depth."""
        if node.is_key_redacted and node.key and node.key_end:
            yield Node("", node.key, node.key_end)
        match node.value:
            case str() if not harmless:
                yield node
            case list(items):
                for item in items:
                    yield from self._doubtful(item, harmless=harmless)
            case dict(members):
                for key, member in members.items():
                    if harmless and key == "servers":
                        yield from self._doubtful_servers(member)
                    else:
                        safe = harmless and (key in self._harmless or key == "discovery")
                        yield from self._doubtful(member, harmless=safe)

    def _is_misspelt(self, fault: Fault) -> bool:
        """Return whether the key of a fault misspells one whose value is no secret."""
        key = fault.path[-1]
        if not isinstance(key, str) or key in self._words or NameKind.of(key) is NameKind.SECRET:
            return False
        self._compared += 1
        meant = self._compared <= _MOST_COMPARED and closest(key, self._words, least=_ALIKE)
        return meant in self._harmless - {"servers"}

    def _doubtful_servers(self, servers: Node) -> Iterator[Node]:
        """Yield the doubtful scalars below `servers`, where a key is a name of any form."""
        if isinstance(servers.value, str):
            yield servers
        for _, entry in servers.children():
            yield from self._doubtful(entry, harmless=isinstance(entry.value, dict))

    def _hide(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            for line in range(node.start.line, min(node.end.line, len(self._lines)) + 1):
                start = node.start.column - 1 if line == node.start.line else 0
                end = node.end.column - 1 if line == node.end.line else len(self._lines[line - 1])
                if start < end:
                    self._hidden.setdefault(line, []).append((start, end))

    def _spans(self, line: int, start: int) -> list[_Span]:
        """Return the hidden spans of a line from `start` on, relative to `start`."""
        spans = self._hidden.get(line, [])
        # A line may contain a whole file, and a problem for each of its entries.
        first = bisect_right(spans, start, key=itemgetter(1))
        return [(max(0, a - start), b - start) for a, b in spans[first : first + _WIDTH]]

    def _words_of(self, piece: str) -> list[_Span]:
        return [word.span() for word in _WORD.finditer(piece) if word.group() not in self._words]


def _disjoint(spans: Iterable[_Span]) -> list[_Span]:
    """Return the spans in order, with overlapping ones merged."""
    runs: list[_Span] = []
    for start, end in sorted(spans):
        if runs and start < runs[-1][1]:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((start, end))
    return runs


def _with_hidden(piece: str, spans: Iterable[_Span], column: int) -> tuple[str, int]:
    """Return the piece with its spans redacted, and the new place of a column."""
    parts: list[str] = []
    done = moved = 0
    for start, end in spans:
        if start >= len(piece):
            break
        parts += (piece[done:start], REDACTED)
        if column >= end:
            moved += len(REDACTED) - (end - start)
        elif column > start:
            moved += start - column
        done = end
    return "".join((*parts, piece[done:])), column + moved
