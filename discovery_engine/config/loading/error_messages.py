"""Turns validation errors of pydantic into messages with a place in the file.

A message holds no value, except of fields that cannot hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.document.tree import FAULT_LIMIT, Fault, Node, Path, Position

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
_KEY = "[key]"  # the last step of pydantic's way to a mapping's key


def faults_from(
    error: ValidationError, node: Node, path: Path = (), *, reported: Iterable[Fault] = ()
) -> list[Fault]:
    """Every error as a fault; `node` is what was validated, and stands at `path`.

    What only follows from faults already `reported` is left out: that a rule does nothing, for
    instance, when its one key was misspelt.
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
    """Follow `way` as far as there are nodes: a single word stands for a list of one."""
    walked: list[str | int] = []
    for step in way:
        child = node.child(step)
        if child is None:
            break
        node = child
        walked.append(step)
    return node, tuple(walked)


def _value_of(node: Node) -> Position:
    """A collection is pointed at by its key, and so is a value that is not there."""
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


def _of_another_type(wanted: str, node: Node) -> tuple[str, str]:
    if node.is_null:
        empty = ' ("" is empty text)' if wanted == "text" else ""
        return f"has no value; it must be {wanted}", f"write one{empty}, or remove the key"
    return f"must be {wanted}, not {_kind(node)}", _hint(wanted, node)


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


def _hint(wanted: str, node: Node) -> str:
    if wanted == "a list":
        return "begin each item with '- ', or put the items in [ ]"
    if wanted.startswith("a mapping"):
        bare = ", without '- '" if isinstance(node.value, list) else ""
        return f"write 'name: value' lines below it{bare}"
    return _hint_for_scalar(wanted, node.value) if isinstance(node.value, str) else ""


def _hint_for_scalar(wanted: str, text: str) -> str:
    if not isinstance(text, PlainScalar) and isinstance(
        PlainScalar(text).meaning, bool | int | float
    ):
        return "remove the quotes"
    if wanted == "true or false" and text.lower() in ("yes", "on", "y", "no", "off", "n"):
        return f"write {str(text.lower() in ('yes', 'on', 'y')).lower()}"
    if (
        wanted.endswith("number")
        and text[:1].isdigit()
        and isinstance(PlainScalar(text).meaning, str)
    ):
        return "write one number, without a unit, colons or leading zeros"
    return ""
