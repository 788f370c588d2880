"""Checks the spelling of keys, and converts validation errors of pydantic to located messages.

A message quotes values only of fields that cannot contain a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, get_args, get_origin

from pydantic import AliasChoices, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.tree import (
    FAULT_LIMIT,
    Fault,
    Node,
    Path,
    PlainScalar,
    Position,
)
from discovery_engine.config.model.section import Section

_WANTED = {
    "bool_type": "true or false",
    "string_type": "text",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "list_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of names to values",
    "model_attributes_type": "a mapping of names to values",
}
_BOUNDS = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "finite_number": "must be finite",
}
_KEY = "[key]"  # the last step of pydantic's location of a mapping's key


def faults_from(
    error: ValidationError, node: Node, path: Path = (), *, reported: Iterable[Fault] = ()
) -> list[Fault]:
    """Return every error as a fault; `node` is the validated node, at `path`.

    Consequences of faults already `reported` are left out: for instance, that a rule does nothing
    because its only key is misspelt.
    """
    details = error.errors(include_url=False, include_input=False)
    places = {fault.at for fault in reported}
    parents = {fault.path[:-1] for fault in reported}
    faults = (_fault(detail, node, path) for detail in details[:FAULT_LIMIT])
    return [fault for fault in faults if fault.at not in places and fault.path not in parents]


def _fault(detail: ErrorDetails, node: Node, path: Path) -> Fault:
    context: Mapping[str, Any] = detail.get("ctx", {})
    way = [*detail["loc"], *filter(None, [context.get("key")])]
    about_key = bool(context.get("key"))
    if way and way[-1] == _KEY:
        way.pop()
        about_key = True
    target, walked = _walk(node, way)
    here = (*path, *walked)
    if detail["type"] == "missing":
        return Fault("CONFIG_MISSING_KEY", (*path, *way), target.name_at, "is missing")
    at = target.name_at if about_key else _value_of(target)
    return Fault("CONFIG_INVALID_VALUE", here, at, *_words(detail, context, target))


def _walk(node: Node, way: Sequence[str | int]) -> tuple[Node, Path]:
    """Follow `way` as long as there are nodes; return the last node and the path to it.

    There may be fewer nodes than steps, because a single word stands for a list of one.
    """
    walked: list[str | int] = []
    for step in way:
        child = node.child(step)
        if child is None:
            break
        node = child
        walked.append(step)
    return node, tuple(walked)


def _value_of(node: Node) -> Position:
    """Return the position of a text's value; of the key for a collection or a missing value."""
    is_text = isinstance(node.value, str) and not node.is_null
    return node.start if is_text else node.name_at


def _words(detail: ErrorDetails, context: Mapping[str, Any], node: Node) -> tuple[str, str]:
    kind = detail["type"]
    if kind == "custom":
        return context["message"], context["hint"]
    if kind == "value_error":
        return str(context["error"]), ""
    if kind == "literal_error":
        return _no_choice(context["expected"], node)
    if type_name := _WANTED.get(kind):
        return _of_another_type(type_name, node)
    if bound := _BOUNDS.get(kind):
        return bound.format_map(context), ""
    return detail["msg"], ""


def _no_choice(expected: str, node: Node) -> tuple[str, str]:
    *others, last = choices = re.findall("'([^']*)'", expected)
    named = " or ".join(filter(None, (", ".join(map(repr, others)), repr(last))))
    if not isinstance(node.value, str) or node.is_null:
        return _of_another_type(f"one of {named}", node)
    return f"must be {named}, not {str(node.value)!r}", did_you_mean(node.value, choices)


def _of_another_type(type_name: str, node: Node) -> tuple[str, str]:
    if node.is_null:
        empty = ' ("" is empty text)' if type_name == "text" else ""
        return f"has no value; it must be {type_name}", f"write one{empty}, or remove the key"
    return f"must be {type_name}, not {_kind(node)}", _hint(type_name, node)


def _kind(node: Node) -> str:
    match node.value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case PlainScalar(meaning=bool()):
            return "true or false"
        case PlainScalar(meaning=int()):
            return "a whole number"
        case PlainScalar(meaning=float()):
            return "a number with a fraction"
    return "text"


def _hint(type_name: str, node: Node) -> str:
    if type_name == "a list":
        return "begin each item with '- ', or put the items in [ ]"
    if type_name.startswith("a mapping"):
        bare = ", without '- '" if isinstance(node.value, list) else ""
        return f"write 'name: value' lines below it{bare}"
    return _hint_for_scalar(type_name, node.value) if isinstance(node.value, str) else ""


def _hint_for_scalar(type_name: str, text: str) -> str:
    if not isinstance(text, PlainScalar) and isinstance(
        PlainScalar(text).meaning, bool | int | float
    ):
        return "remove the quotes"
    if type_name == "true or false" and text.lower() in ("yes", "on", "y", "no", "off", "n"):
        return f"write {str(text.lower() in ('yes', 'on', 'y')).lower()}"
    if (
        type_name.endswith("number")
        and text[:1].isdigit()
        and isinstance(PlainScalar(text).meaning, str)
    ):
        return "write one number, without a unit, colons or leading zeros"
    return ""


# Keys are normalized, and unknown ones reported, before values are validated: an unknown key does
# not hide other mistakes.

_HINTS = {
    "disabled": "write 'enabled: false'",
    "mcpServers": "did you mean 'servers'?",
    "mcp_servers": "did you mean 'servers'?",
    "<<": "mappings are not merged; write the keys out",
    "timeout": "write 'timeouts' with connect, list or call below it",
}


def normalize_keys(node: Node, model: type[Section], path: Path = ()) -> list[Fault]:
    """Rename the keys of a mapping, and of sections below it, to the spelling of `model`.

    Unknown keys, and second spellings of a key, are dropped and returned as faults. A node that is
    no mapping is unchanged.
    """
    return list(islice(_normalize(node, model, path), FAULT_LIMIT))


def known_keys(model: type[Section]) -> frozenset[str]:
    """Return every spelling of every key of a model and of the sections below it."""
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
    """Return the section types of a field, alone or as the items of a list."""
    inner = get_args(annotation) or (annotation,)
    return tuple(
        candidate
        for candidate in inner
        if isinstance(candidate, type) and issubclass(candidate, Section)
    )


def _unknown(unknown_key: str, model: type[Section], path: Path, member: Node) -> Fault:
    canonical = dict.fromkeys(key for key, _ in _fields_by_spelling(model).values())
    if path[-1:] == ("server",) and isinstance(member.value, dict):
        hint = "did you mean 'servers' in place of 'server'?"  # it looks like a server's entry
    elif not (hint := _HINTS.get(unknown_key, "")):
        hint = did_you_mean(unknown_key, canonical, otherwise=f"known here: {', '.join(canonical)}")
    return Fault(
        "CONFIG_UNKNOWN_KEY",
        (*path, unknown_key),
        member.name_at,
        f"unknown key {unknown_key!r}",
        hint,
        member,
    )


def _twice(key: str, first: Node, path: Path, member: Node) -> Fault:
    message = f"{key!r} was given on line {first.name_at.line} already, in another spelling"
    way, hint = (*path, key), "keep one of the two"
    return Fault("CONFIG_DUPLICATE", way, member.name_at, message, hint, member)
