"""The text of one section of a `discovery.yaml`, such as `toolRules`, to be edited by itself.

It is shown as it is written, comments too, and put back as it is given: nothing outside the section
changes by a byte.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import yaml
from msgspec import Struct

from discovery_engine._util.json import JSONValue
from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.document.tree import Node
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.config.editing import yaml_text

SectionPath: TypeAlias = tuple[str, ...]
"""The keys that lead to it, in camelCase: `("search", "synonyms")`."""

_STEP = 2  # columns of indentation


class SectionText(Struct, frozen=True):
    """A section as it is edited, and where it stands in the file."""

    text: str
    line: int
    """In the file, that of its first line; 1 is the first."""
    column: int
    """Columns of the file that each of its lines lacks here."""
    first_column: int
    """The same of its first line, which may stand behind its key."""
    is_there: bool = True

    @property
    def last_line(self) -> int:
        return self.line + max(1, len(self.text.splitlines())) - 1

    def place(self, line: int, column: int) -> tuple[int, int] | None:
        """A line and column of the file in the text of the section; None if it is elsewhere."""
        if not self.line <= line <= self.last_line:
            return None
        lacking = self.first_column if line == self.line else self.column
        return line - self.line + 1, max(1, column - lacking)


def section_text(text: str, path: SectionPath) -> SectionText:
    """A section of a configuration that loads; empty if it is not there.

    Raises:
        KeyError: If what it would be a part of cannot be made, as an unknown view.
    """
    text, _ = yaml_text.with_unix_lines(text)
    return _SectionPlace.of(text, path).section(text)


def with_section(text: str, path: SectionPath, new: str) -> tuple[str, SectionText]:
    """The text of a configuration with another text for a section, and where that stands.

    Raises:
        KeyError: As `section_text`.
    """
    text, end = yaml_text.with_unix_lines(text)
    new = new.replace("\r\n", "\n")
    place = _SectionPlace.of(text, path)
    if not place.is_there:
        if not _has_content(new):
            return text.replace("\n", end), place.section(text)
        text = _with_empty_section(text, path)
        place = _SectionPlace.of(text, path)
    text, at, columns = place.replaced(text, new)
    first = text.count("\n", 0, at) + 1
    placed = SectionText(new, first, columns[1], columns[0])
    return text.replace("\n", end), placed


class _SectionPlace(Struct, frozen=True):
    """Where a section stands in a text with Unix lines."""

    start: int
    end: int
    column: int
    """At which its entries begin, if they have lines of their own."""
    key_column: int
    has_lines: bool
    """True if it has lines of its own; False if it stands behind its key."""
    is_in_brackets: bool
    is_there: bool = True

    @classmethod
    def of(cls, text: str, path: SectionPath) -> _SectionPlace:
        node = yaml_text.configuration_node(text)
        for key in path[:-1]:
            member = yaml_text.find_member(node, yaml_text.spellings_of(key))
            if member is None and key != "search":
                raise KeyError(".".join(path))
            node = member[1] if member else None
        member = yaml_text.find_member(node, yaml_text.spellings_of(path[-1]))
        if member is None:
            return cls(0, 0, 0, 0, has_lines=False, is_in_brackets=False, is_there=False)
        key, value = member
        at = key.start_mark.column
        if isinstance(value, yaml.CollectionNode) and not yaml_text.is_flow(value):
            start = text.find("\n", key.end_mark.index) + 1
            end = yaml_text.line_after(text, yaml_text.end_of(value))
            column = _common_indent(text[start:end])
            return cls(start, end, column, at, has_lines=True, is_in_brackets=False)
        start, end = value.start_mark.index, value.end_mark.index
        in_brackets = yaml_text.is_flow(node)
        return cls(start, end, at + _STEP, at, has_lines=False, is_in_brackets=in_brackets)

    def section(self, text: str) -> SectionText:
        if not self.is_there:
            return SectionText("", text.count("\n") + 1, 0, 0, is_there=False)
        line = text.count("\n", 0, self.start) + 1
        source = text[self.start : self.end]
        if self.has_lines:
            return SectionText(_outdented(source, self.column), line, self.column, self.column)
        first = self.start - (text.rfind("\n", 0, self.start) + 1)
        return SectionText("" if _is_nothing(source) else source, line, 0, first)

    def replaced(self, text: str, new: str) -> tuple[str, int, tuple[int, int]]:
        """The text, where the section starts in it, and the columns that its lines lack."""
        before, after = text[: self.start], text[self.end :]
        if self.is_in_brackets:
            source = _in_brackets(text, new)
            first = self.start - (before.rfind("\n") + 1)
            return before + source + after, self.start, (first, 0)
        root = yaml_text.composed(new)
        is_flow = root is not None and yaml_text.is_flow(root)
        if self.has_lines:
            column = self.column if not is_flow else max(self.column, self.key_column + _STEP)
            return self._with_lines(before, new, after, column)
        if is_flow or not _has_content(new):
            source = new.strip() or "[]"
            gap = " " if before.endswith(":") else ""
            first = self.start + len(gap) - (before.rfind("\n") + 1)
            return before + gap + source + after, self.start + len(gap), (first, 0)
        # What follows on the line of the key, such as a comment, stays there.
        rest, newline, after = after.partition("\n")
        head = before.rstrip(" ") + (f" {rest.strip()}" if rest.strip() else "") + "\n"
        return self._with_lines(head, new, after if newline else "", self.column)

    @staticmethod
    def _with_lines(
        before: str, new: str, after: str, column: int
    ) -> tuple[str, int, tuple[int, int]]:
        ended = new if not new or new.endswith("\n") else f"{new}\n"
        before = before if before.endswith("\n") else f"{before}\n"
        return before + _indented(ended, column) + after, len(before), (column, column)


def _with_empty_section(text: str, path: SectionPath) -> str:
    """The text with the section, empty, behind what is beside it."""
    if len(path) > 2:  # noqa: PLR2004 - of an entry that is there
        *above, key = path
        return yaml_text.with_entries(
            text, yaml_text.spellings_of(key), [], above=list(map(yaml_text.spellings_of, above))
        )
    entries: Any = []
    for key in reversed(path[1:]):
        entries = {key: entries}
    return yaml_text.with_entries(text, yaml_text.spellings_of(path[0]), entries)


def _in_brackets(text: str, new: str) -> str:
    """A section as it can stand in brackets: in JSON as JSON, else as written if that is so."""
    root = yaml_text.composed(new)
    if root is None or not _has_content(new):
        return "[]"
    if yaml_text.is_flow(root) and (not _is_json(text) or _is_json(new)):
        return new[root.start_mark.index : root.end_mark.index]
    read = read_document(new.encode()).root
    return json.dumps(_meaning(read) if read else [], ensure_ascii=False)


def _meaning(node: Node) -> JSONValue:
    """Return the value of a node by YAML 1.2, as the configuration reads it."""
    match node.value:
        case dict() as members:
            return {key: _meaning(value) for key, value in members.items()}
        case list() as items:
            return list(map(_meaning, items))
        case PlainScalar() as scalar:
            return scalar.meaning
        case text:
            return text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _has_content(text: str) -> bool:
    """Return whether the text holds more than comments and blank lines."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _is_nothing(source: str) -> bool:
    return source.strip() in ("", "~", "null", "{}", "[]")


def _common_indent(text: str) -> int:
    lines = [line for line in text.splitlines() if line.strip()]
    return min((len(line) - len(line.lstrip(" ")) for line in lines), default=0)


def _outdented(text: str, column: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line[column:] if line.strip() else line for line in lines)


def _indented(text: str, column: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(" " * column + line if line.strip() else line for line in lines)
