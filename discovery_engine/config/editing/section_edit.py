"""Edits of whole sections of a `discovery.yaml`: rules, overrides and synonyms.

    edit = edit_sections(path, {"toolRules": '- {pattern: "*delete*", enabled: false}'})
    print(edit.diff)
    edit.edit.apply()

What is wrong is reported at the line and column of the section's own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.suggestions import did_you_mean, nearest
from discovery_engine.config.document.excerpts import Excerpts
from discovery_engine.config.document.tree import Document, Fault, Position
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.config.editing import yaml_text
from discovery_engine.config.editing.diff_headings import keys_above
from discovery_engine.config.editing.edit import Edit, FileText, read_file
from discovery_engine.config.editing.section_text import (
    SectionPath,
    SectionText,
    section_text,
    with_section,
)
from discovery_engine.config.loading.key_names import known_keys
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.model.config_file import Configuration
from discovery_engine.config.settings import Settings
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.errors import ConfigurationError, ViewNotFoundError
from discovery_engine.secrets.references import redact_literals

SECTIONS = ("toolRules", "serverRules", "resourceRules", "promptRules", "overrides")
SYNONYMS = "search.synonyms"
_OF_VIEWS = ("rules", "resourceRules", "promptRules")
_OVERRIDES = "overrides"
_CONTEXT = 3  # lines around a change


class EditableSection(Struct, frozen=True):
    """A section as its owner edits it."""

    name: str
    """`toolRules`, `search.synonyms`, `views.NAME.rules`."""
    text: str
    """YAML, or JSON where the file is; without values of pinned arguments."""
    line: int
    """That of its first line in the file; 0 if it is not there."""


class SectionEdit(Struct, frozen=True):
    """A planned change of sections; nothing is written before `edit.apply`."""

    edit: Edit
    diff: str
    """A unified diff of the sections alone, without values of pinned arguments."""


def read_sections(path: Path) -> tuple[EditableSection, ...]:
    """All sections that can be edited, those of views last; empty ones too.

    Raises:
        ConfigurationError: If the file is not there, or does not load.
    """
    file = _existing(path)
    settings = parse_settings(file.text.encode(), file=str(path))
    return tuple(_section(file.text, name) for name in _names(settings))


def edit_sections(path: Path, texts: Mapping[str, str]) -> SectionEdit:
    """The file with other texts for some sections.

    Args:
        path: The file.
        texts: By the names of sections.

    Raises:
        ConfigurationError: If the file would not load. Problems within a section have its name in
            place of the file, and the line and column of its text.
        ViewNotFoundError: If there is no such view.
    """
    file = _existing(path)
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


def _existing(path: Path) -> FileText:
    file = read_file(path)
    if file.content is None:
        hint = "`discovery init` writes one"
        raise ConfigurationError.of_file("CONFIG_NOT_EDITED", path, "there is no such file", hint)
    return file


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


def _restored(text: str, settings: Settings, name: str, given: str) -> str:
    """The text of a section with the values that were not shown.

    Raises:
        ConfigurationError, ViewNotFoundError: If there is no such section.
    """
    _require_known(settings, name)
    given = given.replace("\r\n", "\n")
    if name != _OVERRIDES:
        return given
    restored = restore_values(given, section_text(text, _path(name)).text)
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
            raise ConfigurationError.of_file("CONFIG_NOT_EDITED", name, message, hint)


def _faults(name: str, text: str) -> Iterator[Diagnostic]:
    """Yield the mistakes in the text of a section as YAML, before it is put into a file."""
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
    """The text with other sections, and where each of them stands in it."""
    placed: dict[str, SectionText] = {}
    with suppress(yaml.YAMLError):  # the reader of the configuration reports it
        for name, new in sections.items():
            text, placed[name] = with_section(text, _path(name), new)
        for name, section in placed.items():  # those behind it have moved it
            placed[name] = replace(section, line=section_text(text, _path(name)).line)
    return text, placed


def _in_section(problem: Diagnostic, placed: Mapping[str, SectionText]) -> Diagnostic:
    """The problem at its place in the text of the section that it is in."""
    origin = problem.origin
    for name, section in placed.items():
        if place := section.place(origin.line, origin.column):
            return replace(problem, origin=Origin(name, *place))
    return problem


def _diff(path: Path, text: str, texts: Mapping[str, str]) -> Iterator[str]:
    """The differences section by section: what stands around them may hold secrets."""
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


# Values of pinned arguments in the text of `overrides`, which are edited around and never shown.
#
#     arguments: {owner: acme}    is shown as    arguments: {owner: "[kept 1]"}
#
# References are shown as they are written: they give nothing away.

_MARK = re.compile(r'"\[kept (\d{1,6})\]"')
_HARMLESS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")


def hide_values(text: str) -> str:
    """The text of `overrides` with marks in place of the values of arguments."""
    marked_text, end = "", 0
    for number, (start, stop) in enumerate(_spans(text), 1):
        marked_text += f'{text[end:start]}"[kept {number}]"'
        end = stop
    return marked_text + text[end:]


def restore_values(text: str, original: str) -> str:
    """The text with the values of the original in place of their marks.

    A mark that stands for no value stays as it is.
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
    """A mark that is left when all values are restored."""
    return _MARK.search(text)


def _spans(text: str) -> list[tuple[int, int]]:
    """Where values stand that are not to be shown, in their order."""
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
