"""Values of pinned arguments in the text of `overrides`, which are edited around and never shown.

    arguments: {owner: acme}    is shown as    arguments: {owner: "[kept 1]"}

References are shown as they are written: they give nothing away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from discovery_engine.config.editing import yaml_text
from discovery_engine.secrets.references import redact_literals

_MARK = re.compile(r'"\[kept (\d{1,6})\]"')
_HARMLESS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")


def hide_values(text: str) -> str:
    """The text of `overrides` with marks in place of the values of arguments."""
    shown, end = "", 0
    for number, (start, stop) in enumerate(_spans(text), 1):
        shown += f'{text[end:start]}"[kept {number}]"'
        end = stop
    return shown + text[end:]


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
    found = []
    for entry in root.value if isinstance(root, yaml.SequenceNode) else ():
        _, arguments = yaml_text.find_member(entry, ("arguments",)) or (None, None)
        for node in _scalars(arguments):
            start, stop = node.start_mark.index, node.end_mark.index
            found.append((start, start + len(text[start:stop].rstrip())))
    return found


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
