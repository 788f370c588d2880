"""Normalizes the spelling of keys, and finds unknown ones.

It runs before values are validated, so that an unknown key hides no other mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import get_args, get_origin

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.tree import FAULT_LIMIT, Fault, Node, Path
from discovery_engine.config.model.section import Section

_HINTS = {
    "disabled": "write 'enabled: false'",
    "mcpServers": "did you mean 'servers'?",
    "mcp_servers": "did you mean 'servers'?",
    "<<": "mappings are not merged; write the keys out",
    "timeout": "write 'timeouts' with connect, list or call below it",
}


def normalize_keys(node: Node, model: type[Section], path: Path = ()) -> list[Fault]:
    """Rename the keys of a mapping, and of the sections below it, as `model` spells them.

    Keys that the model does not have, and second spellings of one, are reported and dropped.
    What is no mapping is left alone.
    """
    return list(islice(_normalize(node, model, path), FAULT_LIMIT))


def known_keys(model: type[Section]) -> frozenset[str]:
    """Every spelling of every key of a model and of the sections below it."""
    words: set[str] = set()
    for name, field in model.model_fields.items():
        words.update(_spellings(name, field))
        for section in _sections(field.annotation):
            words.update(known_keys(section))
    return frozenset(words)


def _normalize(node: Node, model: type[Section], path: Path) -> Iterator[Fault]:
    if not isinstance(node.value, dict):
        return
    fields = _fields_by_spelling(model)
    spelt: dict[str, Node] = {}
    for spelling, member in node.value.items():
        if spelling not in fields:
            yield _unknown(spelling, model, path, member)
            continue
        key, field = fields[spelling]
        if first := spelt.get(key):
            yield _twice(spelling, first, path, member)
            continue
        spelt[key] = member
        yield from _normalize_below(member, field, (*path, key))
    node.value = spelt


def _normalize_below(node: Node, field: FieldInfo, path: Path) -> Iterator[Fault]:
    match _sections(field.annotation), node.value:
        case [section], dict(named) if get_origin(field.annotation) is dict:
            for name, entry in named.items():
                yield from _normalize(entry, section, (*path, name))
        case [section], dict():
            yield from _normalize(node, section, path)
        case [section], list(items):
            for index, item in enumerate(items):
                yield from _normalize(item, section, (*path, index))


def _fields_by_spelling(model: type[Section]) -> Mapping[str, tuple[str, FieldInfo]]:
    """Map each spelling of a key, the canonical one first, to that key and its field."""
    fields: dict[str, tuple[str, FieldInfo]] = {}
    for name, field in model.model_fields.items():
        spellings = _spellings(name, field)
        fields |= dict.fromkeys(spellings, (spellings[0], field))
    return fields


def _spellings(name: str, field: FieldInfo) -> list[str]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [str(alias), name] if alias else [name]


def _sections(annotation: object) -> tuple[type[Section], ...]:
    """The section that a field holds, alone or as the items of a list."""
    inner = get_args(annotation) or (annotation,)
    return tuple(
        candidate
        for candidate in inner
        if isinstance(candidate, type) and issubclass(candidate, Section)
    )


def _unknown(written: str, model: type[Section], path: Path, member: Node) -> Fault:
    canonical = dict.fromkeys(key for key, _ in _fields_by_spelling(model).values())
    if path[-1:] == ("server",) and isinstance(member.value, dict):
        hint = "did you mean 'servers' in place of 'server'?"  # it looks like a server's entry
    elif not (hint := _HINTS.get(written, "")):
        hint = did_you_mean(written, canonical, otherwise=f"known here: {', '.join(canonical)}")
    return Fault(
        "CONFIG_UNKNOWN_KEY",
        (*path, written),
        member.name_at,
        f"unknown key {written!r}",
        hint,
        member,
    )


def _twice(written: str, first: Node, path: Path, member: Node) -> Fault:
    message = f"{written!r} was given on line {first.name_at.line} already, in another spelling"
    way, hint = (*path, written), "keep one of the two"
    return Fault("CONFIG_DUPLICATE", way, member.name_at, message, hint, member)
