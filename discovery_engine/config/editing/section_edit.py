"""Edits of whole sections of a `discovery.yaml`: rules, overrides and synonyms.

    edit = edit_sections(path, {"toolRules": '- {pattern: "*delete*", enabled: false}'})
    print(edit.diff)
    edit.edit.apply()

Mistakes are reported at the line and column of the section's own text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.suggestions import did_you_mean, nearest
from discovery_engine.config.document.excerpts import Excerpts
from discovery_engine.config.document.tree import Document, Fault, Position
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.config.editing import yaml_text
from discovery_engine.config.editing.edit import Edit, existing_file, keys_above, not_edited
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.loading.validation import known_keys
from discovery_engine.config.model.config_file import Configuration
from discovery_engine.config.settings import Settings
from discovery_engine.errors import ConfigurationError, Diagnostic, Origin, ViewNotFoundError
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.references import redact_literals

RULES = ("toolRules", "serverRules", "resourceRules", "promptRules")
SECTIONS = (*RULES, "overrides")
SYNONYMS = "search.synonyms"
_OF_VIEWS = ("rules", "resourceRules", "promptRules")
_OVERRIDES = "overrides"
_CONTEXT = 3  # unchanged lines around a change


class EditableSection(Struct, frozen=True):
    """A section in the form for its owner."""

    name: str
    """The name, such as `toolRules`, `search.synonyms` or `views.NAME.rules`."""
    text: str
    """The YAML, or JSON as in the file, without the values of pinned arguments."""
    line: int
    """The first line in the file; 0 if the section does not exist, or is in the registry."""
    where: Literal["file", "registry"] = "file"


class SectionEdit(Struct, frozen=True):
    """A planned change of sections, which `edit.apply` writes."""

    edit: Edit
    diff: str
    """The unified diff of the sections only, without the values of pinned arguments."""


def read_sections(path: Path) -> tuple[EditableSection, ...]:
    """Return all editable sections, also empty ones; those of views come last.

    Raises:
        ConfigurationError: If the file is missing or invalid.
    """
    file = existing_file(path)
    settings = parse_settings(file.text.encode(), file=str(path))
    return tuple(_section(file.text, name) for name in _names(settings))


def edit_sections(path: Path, texts: Mapping[str, str]) -> SectionEdit:
    """Plan new texts for some sections of a file.

    Args:
        path: The file.
        texts: The new texts, by the names of sections.

    Raises:
        ConfigurationError: If the file would be invalid. Problems in a section have its name in
            place of the file, and the line and column in its text.
        ViewNotFoundError: If there is no such view.
    """
    file = existing_file(path)
    settings = parse_settings(file.text.encode(), file=str(path))
    restored = {name: _restored(file.text, settings, name, text) for name, text in texts.items()}
    if faults := [fault for name, text in restored.items() for fault in _faults(name, text)]:
        raise ConfigurationError(faults)
    after, placed = _replaced(file.text, restored)
    try:
        parse_settings(after.encode(), file=str(path))
    except ConfigurationError as error:
        problems = (_in_section(problem, placed) for problem in error.problems)
        raise ConfigurationError(list(problems)) from None
    edit = Edit(path, file.content, after)
    return SectionEdit(edit, "".join(_diff(path, file.text, texts)))


def parse_rules(section: str, text: str, *, place: str) -> tuple[Rule, ...]:
    """Return the rules of one of `RULES` that stands in no file; their origins name `place`.

    Raises:
        ConfigurationError: If it is invalid. Problems have the name of the section for a file, and
            the line and column in its text.
    """
    if faults := [*_faults(section, text)]:
        raise ConfigurationError(faults)
    document, placed = _replaced("", {section: text})
    try:
        settings = parse_settings(document.encode(), file="")
    except ConfigurationError as error:
        problems = (_in_section(problem, placed) for problem in error.problems)
        raise ConfigurationError(list(problems)) from None
    rules = {
        "toolRules": settings.tool_rules,
        "serverRules": settings.server_rules,
        "resourceRules": settings.resource_rules,
        "promptRules": settings.prompt_rules,
    }[section]

    def moved(origin: Origin) -> Origin:
        return Origin(place, *(placed[section].place(origin.line, origin.column) or ()))

    return tuple(replace(rule, origin=moved(rule.origin)) for rule in rules)


def diff_texts(place: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the unified diff of sections that stand in no file; empty if they are equal."""
    hunks = [
        hunk
        for name, text in after.items()
        for hunk in _hunks(name, 1, 0, before.get(name, "").splitlines(), text.splitlines())
    ]
    return "".join((f"--- {place}\n+++ {place}\n", *hunks)) if hunks else ""


def _names(settings: Settings) -> Iterator[str]:
    yield from SECTIONS
    yield SYNONYMS
    for view in settings.views:
        for key in _OF_VIEWS:
            yield f"views.{view.name}.{key}"


def _section(text: str, name: str) -> EditableSection:
    section = section_text(text, _path(name))
    visible_text = hide_values(section.text) if name == _OVERRIDES else section.text
    return EditableSection(name, visible_text, section.line if section.is_there else 0)


def _path(name: str) -> SectionPath:
    return tuple(name.split("."))


def _restored(text: str, settings: Settings, name: str, new_text: str) -> str:
    """Return the text of a section with the hidden values restored.

    Raises:
        ConfigurationError, ViewNotFoundError: If there is no such section, or a mark is unknown.
    """
    _require_known(settings, name)
    new_text = new_text.replace("\r\n", "\n")
    if name != _OVERRIDES:
        return new_text
    restored = restore_values(new_text, section_text(text, _path(name)).text)
    if mark := unknown_mark(restored):
        line = restored.count("\n", 0, mark.start()) + 1
        column = mark.start() - restored.rfind("\n", 0, mark.start())
        message = f"{mark[0]} stands for no value of the file"
        hint = "write the value, or a ${reference}"
        origin = Origin(name, line, column)
        raise ConfigurationError([Diagnostic("CONFIG_INVALID_VALUE", message, hint, "", origin)])
    return restored


def _require_known(settings: Settings, name: str) -> None:
    match name.split("."):
        case ["views", view, key] if key in _OF_VIEWS:
            names = [listed_view.name for listed_view in settings.views]
            if view not in names:
                raise ViewNotFoundError(view, nearest(view, names))
        case _ if name not in (*SECTIONS, SYNONYMS):
            names = list(_names(settings))
            hint = did_you_mean(name, names, otherwise=f"these are: {', '.join(names)}")
            message = "is no section that is edited by itself"
            raise not_edited(name, message, hint)


def _faults(name: str, text: str) -> Iterator[Diagnostic]:
    """Yield the mistakes in a section's YAML, before it is put into a file."""
    document = read_document(text.encode())
    faults = list(document.faults)
    root = document.root
    if not (document.is_broken or root is None or root.is_null or isinstance(root.value, list)):
        hint = "begin each entry with '- '"
        message = "must be a list"
        faults.append(Fault("CONFIG_INVALID_VALUE", (), root.start, message, hint))
    excerpts = Excerpts(document, faults, known_keys(Configuration))
    yield from (_shown(fault, name, document, excerpts) for fault in faults)


def _shown(fault: Fault, name: str, document: Document, excerpts: Excerpts) -> Diagnostic:
    last = Position(max(1, len(document.lines)), 1)
    at = min(fault.at, last) if fault.at.line > last.line else fault.at
    return replace(fault, at=at).diagnostic("", name, excerpts.at(at))


def _replaced(text: str, sections: Mapping[str, str]) -> tuple[str, Mapping[str, SectionText]]:
    """Return the text with the new sections, and the place of each."""
    placed: dict[str, SectionText] = {}
    with suppress(yaml.YAMLError):  # the reader of the configuration reports it
        for name, new in sections.items():
            text, placed[name] = with_section(text, _path(name), new)
        for name, section in placed.items():  # later ones have moved it
            placed[name] = replace(section, line=section_text(text, _path(name)).line)
    return text, placed


def _in_section(problem: Diagnostic, placed: Mapping[str, SectionText]) -> Diagnostic:
    """Return the problem with its place in the text of its section."""
    origin = problem.origin
    for name, section in placed.items():
        if place := section.place(origin.line, origin.column):
            return replace(problem, origin=Origin(name, *place))
    return problem


def _diff(path: Path, text: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the diff section by section: other lines of the file may contain secrets."""
    yield f"--- {path}\n+++ {path}\n"
    moved = 0
    places = {name: section_text(text, _path(name)).line for name in texts}
    for name in sorted(texts, key=lambda section: places[section]):
        before = _section(text, name)
        lines, other = before.text.splitlines(), texts[name].splitlines()
        yield from _hunks(name, places[name], moved, lines, other)
        moved += len(other) - len(lines)


def _hunks(
    name: str, line: int, moved: int, before: Sequence[str], after: Sequence[str]
) -> Iterator[str]:
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        ranges = (
            f"-{line + first[1]},{last[2] - first[1]}",
            f"+{line + moved + first[3]},{last[4] - first[3]}",
        )
        heading = f"{name}: {keys_above(before, first[1])}".strip()
        yield f"@@ {' '.join(ranges)} @@ {heading}\n"
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                yield from (f" {text}\n" for text in before[i1:i2])
                continue
            yield from (f"-{text}\n" for text in before[i1:i2])
            yield from (f"+{text}\n" for text in after[j1:j2])


# Values of pinned arguments in the text of `overrides`: hidden, and restored after editing.
#
#     arguments: {owner: acme}    is shown as    arguments: {owner: "[kept 1]"}
#
# References are shown, because they contain no value.

_MARK = re.compile(r'"\[kept (\d{1,6})\]"')
_HARMLESS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")


def hide_values(text: str) -> str:
    """Return the text of `overrides` with marks in place of the arguments' values."""
    marked_text, end = "", 0
    for number, (start, stop) in enumerate(_spans(text), 1):
        marked_text += f'{text[end:start]}"[kept {number}]"'
        end = stop
    return marked_text + text[end:]


def restore_values(text: str, original: str) -> str:
    """Return the text with the original's values in place of their marks.

    A mark without a value is unchanged.
    """
    spans = list(_spans(original))

    def value(mark: re.Match[str]) -> str:
        number = int(mark[1])
        if not 0 < number <= len(spans):
            return mark[0]
        start, stop = spans[number - 1]
        return original[start:stop]

    return _MARK.sub(value, text)


def unknown_mark(text: str) -> re.Match[str] | None:
    """Return a mark that remains after `restore_values`; None if there is none."""
    return _MARK.search(text)


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the places of values to hide, in order."""
    root = yaml_text.composed(text)
    spans = []
    for entry in root.value if isinstance(root, yaml.SequenceNode) else ():
        _, arguments = yaml_text.find_member(entry, ("arguments",)) or (None, None)
        for node in _scalars(arguments):
            start, stop = node.start_mark.index, node.end_mark.index
            spans.append((start, start + len(text[start:stop].rstrip())))
    return spans


def _scalars(node: Any) -> Iterator[Any]:
    match node:
        case yaml.MappingNode():
            for _, value in node.value:
                yield from _scalars(value)
        case yaml.SequenceNode():
            for item in node.value:
                yield from _scalars(item)
        case yaml.ScalarNode() if node.tag not in _HARMLESS and _is_literal(node):
            yield node


def _is_literal(node: Any) -> bool:
    return bool(node.value) and redact_literals(node.value) != node.value


# A section is shown as written, with comments, and replaced by the given text: no other byte of the
# file changes.

SectionPath: TypeAlias = tuple[str, ...]
"""The keys that lead to a section, in camelCase: `("search", "synonyms")`."""

_STEP = 2  # columns of indentation


class SectionText(Struct, frozen=True):
    """The text of a section, and its place in the file."""

    text: str
    line: int
    """The first line in the file, from 1."""
    column: int
    """The columns of indentation that its lines lack here."""
    first_column: int
    """The columns that its first line lacks, which may follow the key."""
    is_there: bool = True

    @property
    def last_line(self) -> int:
        return self.line + max(1, len(self.text.splitlines())) - 1

    def place(self, line: int, column: int) -> tuple[int, int] | None:
        """Return the place in this text of a place in the file; None if it is outside."""
        if not self.line <= line <= self.last_line:
            return None
        lacking = self.first_column if line == self.line else self.column
        return line - self.line + 1, max(1, column - lacking)


def section_text(text: str, path: SectionPath) -> SectionText:
    """Return a section of a valid configuration; empty if it does not exist.

    Raises:
        KeyError: If its parent does not exist and cannot be created, such as a view.
    """
    text, _ = yaml_text.with_unix_lines(text)
    return _SectionPlace.of(text, path).section(text)


def with_section(text: str, path: SectionPath, new: str) -> tuple[str, SectionText]:
    """Return a configuration with another text for a section, and the place of that text.

    Raises:
        KeyError: See `section_text`.
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
    """The place of a section in a text with Unix line ends."""

    start: int
    end: int
    column: int
    """The column of its entries, if they have lines of their own."""
    key_column: int
    has_lines: bool
    """True if it has lines of its own; False if it follows its key."""
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
        """Return the text, the section's start in it, and the columns that its lines lack."""
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
    """Return the text with an empty section, after its siblings."""
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
    """Return a section for a place in brackets: as written if that is valid there, else as JSON."""
    root = yaml_text.composed(new)
    if root is None or not _has_content(new):
        return "[]"
    if yaml_text.is_flow(root) and (not _is_json(text) or _is_json(new)):
        return new[root.start_mark.index : root.end_mark.index]
    read = read_document(new.encode()).root
    return json.dumps(read.meant() if read else [], ensure_ascii=False)


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
