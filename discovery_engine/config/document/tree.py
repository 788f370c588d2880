"""The text of a configuration as a tree with positions, and its faults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct, field

from discovery_engine._util.json import JSONValue
from discovery_engine.errors import Diagnostic, Origin

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
# No leading zeros, which could mean octal, and no more digits than any real number has.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]{0,30})(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


class PlainScalar(str):
    """A scalar without quotes."""

    __slots__ = ()

    @property
    def meaning(self) -> bool | float | str | None:
        """The value in YAML 1.2, for fields that are not text."""
        text = str(self)
        if text.lower() in _WORDS and text in (text.lower(), text.title(), text.upper()):
            return _WORDS[text.lower()]
        if _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text


FAULT_LIMIT = 100  # nobody reads a longer list

Path: TypeAlias = tuple[str | int, ...]


class Position(Struct, frozen=True, order=True):
    """The start of a piece; both count from 1."""

    line: int = 1
    column: int = 1


class Node(Struct):
    value: str | dict[str, Node] | list[Node]
    start: Position
    end: Position
    key: Position | None = None
    """The start of its key, if it is a member of a mapping."""
    key_end: Position | None = None
    is_key_redacted: bool = False
    """True if its key may be a secret, and is replaced by a placeholder in the tree."""

    def plain(self) -> JSONValue:
        """Return the node as dicts, lists and strings."""
        match self.value:
            case dict(members):
                return {key: node.plain() for key, node in members.items()}
            case list(items):
                return [node.plain() for node in items]
            case text:
                return text

    def meant(self, *, has_numbers: bool = True) -> JSONValue:
        """Return the node with unquoted scalars as YAML 1.2 reads them.

        Without `has_numbers`, numbers stay text, so that a version such as 1.10 is unchanged.
        """
        match self.value:
            case dict(members):
                return {k: node.meant(has_numbers=has_numbers) for k, node in members.items()}
            case list(items):
                return [node.meant(has_numbers=has_numbers) for node in items]
            case PlainScalar(meaning=meaning) if has_numbers or isinstance(meaning, bool | None):
                return meaning
            case text:
                return str(text)

    def children(self) -> Iterator[tuple[str | int, Node]]:
        match self.value:
            case dict(members):
                yield from members.items()
            case list(items):
                yield from enumerate(items)

    def child(self, key: str | int) -> Node | None:
        match self.value, key:
            case dict(members), str():
                return members.get(key)
            case list(items), int() if 0 <= key < len(items):
                return items[key]
        return None

    @property
    def name_at(self) -> Position:
        """The start of its key; its own start if it has none."""
        return self.key or self.start

    @property
    def is_null(self) -> bool:
        return isinstance(self.value, PlainScalar) and self.value.meaning is None


class Fault(Struct, frozen=True):
    """A mistake in the document, not yet redacted for display."""

    code: str
    path: Path
    at: Position
    message: str
    hint: str = ""
    dropped: Node | None = None
    """The node that was left out of the tree because of it; never displayed."""

    def diagnostic(self, path: str, file: str, excerpt: str) -> Diagnostic:
        """Return the diagnostic of the mistake; `path` and `excerpt` must be redacted."""
        origin = Origin(file, self.at.line, self.at.column)
        return Diagnostic(self.code, self.message, self.hint, path, origin, excerpt)


class Document(Struct):
    lines: list[str]
    root: Node | None = None
    """The tree; None for an empty text, and for one that is no YAML at all."""
    faults: list[Fault] = field(default_factory=list)
    """The mistakes in the YAML; the tree has everything that could be read."""
    is_broken: bool = False
    """True if reading stopped early, so that the tree is incomplete."""
