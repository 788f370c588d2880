"""Reads a YAML or JSON text into a tree with positions.

JSON needs no parser of its own, because it is YAML. Scalars stay text: an unquoted one is a
`PlainScalar`, and its field decides what it means, so that `no`, `12:30` and `0123` stay as written
where text is expected.

The text is untrusted: it is read event by event, without recursion, with limits on size and depth,
and without aliases, which could multiply it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Protocol

import yaml
from msgspec import Struct
from yaml.scanner import ScannerError

from discovery_engine.config.document.tree import (
    FAULT_LIMIT,
    Document,
    Fault,
    Node,
    Path,
    PlainScalar,
    Position,
)

SIZE_LIMIT = 1024 * 1024  # bytes; a thousand servers with all their rules take a third
_DEPTH_LIMIT = 64
_TOO_DEEP = f"is nested more than {_DEPTH_LIMIT} levels deep"
_VALUE_LIMIT = 100_000  # keys count as well; a thousand servers have half of that
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
_SURROGATES = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE
)
_SAVED = len(r"\ud83d\ude00") - len(r"\U0001f600")  # columns, for each character joined


def read_document(
    content: bytes, *, size_limit: int = SIZE_LIMIT, value_limit: int = _VALUE_LIMIT
) -> Document:
    """Read a whole text; mistakes are in `faults`, and nothing is raised."""
    if len(content) > size_limit:
        return _unreadable(f"is larger than {size_limit:,} bytes")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _unreadable("is UTF-16", hint="save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:  # its `object` is without the byte order mark
        line, column = _after(error.object[: error.start].decode())
        return _unreadable("is not UTF-8 text", Position(line, column), hint="save it as UTF-8")
    if unprintable := _UNPRINTABLE.search(text):
        at, character = Position(*_after(text[: unprintable.start()])), unprintable.group()
        hint = "save it as UTF-8" if character == "\0" else ""  # UTF-16 of ASCII is full of them
        return _unreadable(f"has the unprintable character {character!r}", at, hint=hint)
    return _Reader(text, value_limit).read()


def _unreadable(message: str, at: Position | None = None, *, hint: str = "") -> Document:
    fault = Fault("CONFIG_UNREADABLE", (), at or Position(), message, hint)
    return Document([], faults=[fault], is_broken=True)


def _after(text: str) -> tuple[int, int]:
    lines = f"{text}|".splitlines()
    return len(lines), len(lines[-1])


class _StopReading(Exception):  # noqa: N818 - only leaves the loop
    pass


class _Key(Struct, frozen=True):
    """A key without its value yet."""

    name: str
    start: Position
    end: Position


class _Reader:
    """Builds the tree from the parser's events, with the open collections on a stack."""

    def __init__(self, text: str, value_limit: int) -> None:
        self._value_limit = value_limit
        self._text, self._shortened = _with_joined_surrogates(text)
        self._document = Document(text.splitlines())
        self._open: list[Node] = []
        self._keys: list[_Key | None] = []
        """For each open collection, the key that has no value yet."""
        self._steps: list[str | int] = []
        """The path of the innermost open collection."""
        self._count = 0

    def read(self) -> Document:
        try:
            for event in yaml.parse(self._text, Loader=_LOADER):
                self._take(event)
        except yaml.YAMLError as error:
            self._stop_at(error)
        except _StopReading:
            self._document.is_broken = True
        return self._document

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent() if self._document.root is not None:
                self._fail(event, "a second document starts here", "keep one, without '---'")
            case yaml.AliasEvent():
                self._fault_from(event, "aliases are not allowed", _ALIAS_HINT)
                self._skip_value()
            case yaml.ScalarEvent():
                self._take_scalar(event)
            case yaml.MappingStartEvent():
                self._open_collection(event, {})
            case yaml.SequenceStartEvent():
                self._open_collection(event, [])
            case yaml.CollectionEndEvent():
                self._close_collection(event)

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        self._refuse_extras(event)
        is_plain = event.implicit[0] and event.style in (None, "")
        text = PlainScalar(event.value) if is_plain else event.value
        if self._wants_key:
            self._take_key(event, text)
        else:
            self._attach(Node(text, self._place(event.start_mark), self._place(event.end_mark)))

    def _take_key(self, event: yaml.ScalarEvent, text: str) -> None:
        if isinstance(text, PlainScalar) and text.meaning is None:
            self._fail(event, "a key must be text", "put it in quotes")
        places = self._place(event.start_mark), self._place(event.end_mark)
        self._keys[-1] = _Key(str(text), *places)

    def _open_collection(
        self, event: yaml.CollectionStartEvent, value: dict[str, Node] | list[Node]
    ) -> None:
        self._refuse_extras(event)
        if self._wants_key:
            self._fail(event, "a key must be text", "put it in quotes")
        if len(self._open) == _DEPTH_LIMIT:
            self._fail(event, _TOO_DEEP)
        node = Node(value, self._place(event.start_mark), self._place(event.end_mark))
        way = self._path()
        self._attach(node)
        self._steps = list(way)
        self._open.append(node)
        self._keys.append(None)

    def _close_collection(self, event: yaml.CollectionEndEvent) -> None:
        self._keys.pop()
        self._open.pop().end = self._place(event.end_mark)
        self._steps = self._steps[:-1]

    @property
    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and not self._keys[-1]

    def _attach(self, node: Node) -> None:
        if not self._open:
            self._document.root = node
        elif isinstance(members := self._open[-1].value, list):
            members.append(node)
        elif isinstance(members, dict) and (pending := self._keys[-1]):
            self._add_member(members, pending, node)

    def _add_member(self, members: dict[str, Node], pending: _Key, node: Node) -> None:
        node.key, node.key_end = pending.start, pending.end
        if first := members.get(pending.name):
            message = f"duplicate key {pending.name!r}, first given on line {first.name_at.line}"
            hint = "keep one of the two"
            self._tell(Fault("CONFIG_DUPLICATE", self._path(), node.key, message, hint, node))
        members.setdefault(pending.name, node)
        self._keys[-1] = None

    def _skip_value(self) -> None:
        if self._keys and isinstance(self._open[-1].value, dict):
            if self._wants_key:
                raise _StopReading
            self._keys[-1] = None

    def _refuse_extras(self, event: yaml.NodeEvent) -> None:
        self._count += 1
        if self._count > self._value_limit:
            self._fail(event, f"holds more than {self._value_limit:,} values")
        if event.anchor is not None:
            self._fault_from(event, "anchors are not allowed", "remove the & and its name")
        if getattr(event, "tag", None) is not None:
            self._fault_from(
                event, "tags are not allowed", "put a value that starts with ! in quotes"
            )

    def _path(self) -> Path:
        """Return the path of the next value."""
        if not self._open:
            return ()
        members, pending = self._open[-1].value, self._keys[-1]
        if pending:
            return (*self._steps, pending.name)
        return (*self._steps, len(members)) if isinstance(members, list) else tuple(self._steps)

    def _fault(self, event: yaml.Event, message: str, hint: str = "") -> None:
        at = self._place(event.start_mark)
        self._tell(Fault("CONFIG_SYNTAX", self._path(), at, message, hint))

    def _fault_from(self, event: yaml.Event, message: str, hint: str) -> None:
        """Add a fault from here on; the rest of the line belongs to it, and is not displayed."""
        at = self._place(event.start_mark)
        rest = Node("", at, Position(at.line + 1, 1))
        self._tell(Fault("CONFIG_SYNTAX", self._path(), at, message, hint, rest))

    def _tell(self, fault: Fault) -> None:
        self._document.faults.append(fault)
        if len(self._document.faults) == FAULT_LIMIT:
            raise _StopReading

    def _fail(self, event: yaml.Event, message: str, hint: str = "") -> None:
        self._fault(event, message, hint)
        raise _StopReading

    def _stop_at(self, error: yaml.YAMLError) -> None:
        problem = getattr(error, "problem", None) or "it cannot be read"
        message = " ".join(filter(None, (problem, getattr(error, "context", None))))
        text = _TOO_DEEP if self._is_too_deep(error) else f"is not valid YAML: {message}"
        stop = getattr(error, "problem_mark", None)
        start = getattr(error, "context_mark", None)
        begin, end = self._place(start or stop), self._place(stop or start)
        first, last = self._text_from(begin)[:1], self._text_from(end)[:1]
        # The start helps more if the text ended too soon, or if quotes are missing.
        at = begin if end.line > len(self._document.lines) or first in _NEED_QUOTES else end
        if any(x.lstrip().startswith(("//", "/*")) for x in self._document.lines[: at.line]):
            hint = "a comment begins with '#', in JSON too"
        elif last == "\t":
            hint = "indent with spaces, not with tabs"
        elif first in _NEED_QUOTES:
            hint = f"put a value that starts with {first} in quotes"
        elif isinstance(error, ScannerError):
            hint = self._token_hint(begin, end)
        else:
            hint = self._collection_hint(begin, end)
        self._document.faults.append(Fault("CONFIG_SYNTAX", (), at, text, hint))
        self._document.is_broken = True

    # Hints depend on the text where the parser began and stopped: its messages vary by version.

    def _token_hint(self, begin: Position, end: Position) -> str:
        text = self._text_from(begin)
        if begin == end:
            return _MISPLACED.get(text[:1], _SPECIAL)
        if text[:1] not in {"'", '"'}:
            return "" if text[:1] in {"|", ">", "%"} else _KEY
        if "\\" in "".join(self._document.lines[end.line - 1 : end.line])[: end.column]:
            return "in double quotes write \\\\ for one backslash, or use single quotes"
        return _KEY if text[0] in text[1:] else "close the quotes"

    def _collection_hint(self, begin: Position, end: Position) -> str:
        if begin == end:
            return ""
        text = self._text_from(begin)
        otherwise = "indent the keys of one mapping alike"
        return _OPEN.get(text[:2].strip(), _OPEN.get(text[:1], otherwise))

    def _is_too_deep(self, error: yaml.YAMLError) -> bool:
        """Return whether the parser stopped inside more open brackets than may be nested.

        A bracket may begin a key, so the parser reads up to a limit of its own before it reports
        the first event. Its message for that varies by version, but the brackets do not.
        """
        mark = getattr(error, "problem_mark", None)
        before = self._text[: mark.index] if mark else ""
        opened, closed = (sum(map(before.count, brackets)) for brackets in ("[{", "]}"))
        return opened - closed > _DEPTH_LIMIT

    def _place(self, mark: _Mark | None) -> Position:
        """Return the position of a parser's mark in the original text."""
        if mark is None:
            return Position()
        joined = bisect_right(self._shortened.get(mark.line, ()), mark.column)
        return Position(mark.line + 1, mark.column + 1 + joined * _SAVED)

    def _text_from(self, at: Position) -> str:
        return "".join(self._document.lines[at.line - 1 : at.line])[at.column - 1 :]


_ALIAS_HINT = "write the value itself, or put a pattern that starts with * in quotes"
_NEED_QUOTES = frozenset("*&!")  # the beginnings of an alias, an anchor and a tag
_SPECIAL = "put a value that starts with a special character in quotes"
_KEY = "write 'key: value', with a space after the colon"
_MISPLACED = {
    ":": "indent the keys of one mapping alike, and put a value that holds ': ' in quotes",
    "-": "",
    "?": "",
}
_OPEN = {
    "[": "close the bracket, and put commas between the items",
    "{": "close the brace, and put commas between the members",
    "-": "indent the items of one list alike",
}
"""The hints for a collection, by its beginning."""


class _Mark(Protocol):
    line: int
    column: int


def _with_joined_surrogates(text: str) -> tuple[str, dict[int, list[int]]]:
    """Return the text with each pair of escaped surrogates, as in JSON, as one escape of YAML.

    Also return, for each line that became shorter, the columns after its joined escapes. Lines and
    columns count from 0.
    """
    if "\\u" not in text:
        return text, {}
    lines = text.splitlines(keepends=True)
    pairs = {number: list(_SURROGATES.finditer(line)) for number, line in enumerate(lines)}
    shortened = {
        number: [pair.end() - count * _SAVED for count, pair in enumerate(line_pairs, 1)]
        for number, line_pairs in pairs.items()
        if line_pairs
    }
    return _SURROGATES.sub(_joined, text), shortened


def _joined(pair: re.Match[str]) -> str:
    backslashes, high, low = pair.groups()
    code = 0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
    return f"{backslashes}\\U{code:08x}"
