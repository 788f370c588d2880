"""Renders a JSON Schema as a type in one line.

    {"type": "array", "items": {"enum": ["bug", "docs"]}}     ("bug"|"docs")[]
    a tool with its parameters                                label(name: string, state?: 1|2)

Keywords without such a form are omitted; the whole schema is a resource. Schemas are untrusted, so
the length of the text and the work for it are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from urllib.parse import unquote

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import named, one_line
from discovery_engine.tools.limits import shortened
from discovery_engine.tools.model import Parameter, Tool
from discovery_engine.tools.schemas import ArgumentChoice, ArgumentSet, pointed

_CHOICES = 12  # values of an enum; the others are counted
_MEMBERS = 24  # members of an object; the others are omitted
_NAMED = 5  # members of an object of which only the names are shown
_LONG = 40  # characters of a value; longer ones are cut, and omitted as a default
_SHORT = 256  # characters of a value that cost as much as reading one subschema
_READABLE = 800  # characters of a type; a longer one is rendered less deeply
_DEPTH = 3  # levels of objects and arrays
_LOOKED_AT = 2_000  # subschemas read for all parameters of a tool at each depth, at 1.5 us each
_LEAST_LOOKED_AT = 8  # subschemas read for one parameter, however many there are


def signature(tool: Tool) -> str:
    """Return the signature of a tool: `create_issue(title: string, labels?: string[])`."""
    if tool.takes_unnamed:
        return f"{named(tool.name)}(…)"
    listed = ", ".join(typed(p, tool) for p in tool.parameters)
    return f"{named(tool.name)}({'; '.join([listed, *map(choice_text, tool.choices)])})"


def choice_text(choice: ArgumentChoice) -> str:
    """Return `exactly one of id, name`, or `at least one of (id), (name, owner)`."""
    number = "exactly" if choice.is_exclusive else "at least"
    return f"{number} {alternatives_text([*map(_parts, choice.alternatives)])}"


def alternatives_text(alternatives: Sequence[Sequence[str]]) -> str:
    """Return `one of id, name`, or `one of (id), (name, owner)`."""
    is_plain = all(len(parts) == 1 for parts in alternatives)
    texts = [", ".join(parts[:_MEMBERS]) for parts in alternatives[:_CHOICES]]
    choices = dict.fromkeys(text if is_plain else f"({text})" for text in texts)
    left = ["…"] if len(alternatives) > len(texts) else []
    return f"one of {', '.join([*choices, *left])}"


def _parts(alternative: ArgumentSet) -> list[str]:
    values = [f"{named(name)}={_cut(_literal(v))}" for name, v in alternative.values.items()]
    return [*values, *(named(n) for n in alternative.needed if n not in alternative.values)]


def typed(parameter: Parameter, tool: Tool) -> str:
    """Return a parameter with its type: `state?: "open"|"closed"`."""
    mark = "" if parameter.required else "?"
    most = most_looked_at(tool.parameter_count)
    text = type_text(parameter.schema, tool.input_schema, most=most)
    return f"{named(parameter.name)}{mark}: {text}"


def members_text(parameter: Parameter, tool: Tool) -> str:
    """Return the names within an argument that holds the others: `: {name, ttl?}`; else nothing."""
    facts = _Root(tool.input_schema, _LOOKED_AT).resolved(parameter.schema)
    properties = facts.get("properties")
    if not isinstance(properties, dict) or not properties:
        return ""
    names = facts.get("required")
    needed = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    members = [
        f"{named(_cut(name))}{'' if name in needed else '?'}"
        for name, _ in _needed_first(properties, needed)
    ]
    left = ["…"] if len(members) > _NAMED else []
    return f": {{{', '.join([*members[:_NAMED], *left])}}}"


def most_looked_at(count: int) -> int:
    """Return how many subschemas may be read for each of `count` parameters."""
    return max(_LOOKED_AT // max(1, count), _LEAST_LOOKED_AT)


def parameter_line(parameter: Parameter, tool: Tool, about: str | None = None) -> str:
    """Return one parameter's line: `state?: "open"|"closed" = "open" - Which issues to list`.

    `about` replaces the parameter's description after the dash.
    """
    text = one_line(parameter.description if about is None else about)
    head = f"{typed(parameter, tool)}{_default(parameter.schema)}"
    return f"{head} - {text}" if text else head


def type_text(schema: JSONValue, root: JSONObject, *, most: int = _LOOKED_AT) -> str:
    """Return a schema as a type, as deep as it stays readable.

    Args:
        schema: The schema.
        root: The schema that its local `$ref`s point into.
        most: The most subschemas that are read at each depth; `any` beyond that.
    """
    for depth in range(_DEPTH, -1, -1):
        with suppress(_TooManyError):
            text = _type(schema, _Root(root, most), depth)
            if len(text) <= _READABLE or not depth:
                return text
    return "any"


class _TooManyError(Exception):
    """A type needs more subschemas than may be read."""


class _Root:
    """The root schema, and how many subschemas may still be read."""

    def __init__(self, schema: JSONObject, most: int) -> None:
        self._schema = schema
        self._left = most

    def look_at(self, count: int) -> None:
        """Count the work of reading `count` subschemas; raise `_TooManyError` over the limit."""
        self._left -= count
        if self._left < 0:
            raise _TooManyError

    def literal(self, value: JSONValue) -> str:
        text = _literal(value)
        self.look_at(len(text) // _SHORT)
        return _cut(text)

    def resolved(self, schema: JSONValue) -> JSONObject:
        """Return the subschema, or the target of its local `$ref`.

        The reference is followed once, because references may form a cycle.
        """
        self.look_at(1)
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        target = pointed(self._schema, unquote(reference[1:]))
        return target if isinstance(target, dict) else {}


def _type(schema: JSONValue, root: _Root, depth: int) -> str:
    facts = root.resolved(schema)
    if not facts or depth < 0:
        return "any"
    if "const" in facts:
        return root.literal(facts["const"])
    if isinstance(facts.get("enum"), list):
        return _choices(facts["enum"], root)
    for union in ("anyOf", "oneOf"):
        if isinstance(facts.get(union), list):
            branches = facts[union][:_CHOICES]
            return _joined(_type(branch, root, depth - 1) for branch in branches)
    kinds = facts.get("type")
    named = kinds[:_CHOICES] if isinstance(kinds, list) else [kinds]
    return _joined(_named(kind, facts, root, depth) for kind in named)


def _named(kind: JSONValue, facts: JSONObject, root: _Root, depth: int) -> str:
    if kind == "array":
        item = _type(facts.get("items"), root, depth - 1)
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object" or (kind is None and "properties" in facts):
        return _object(facts, root, depth)
    if kind in ("integer", "number"):
        return f"{kind}{_range(facts)}"
    if kind == "string" and isinstance(facts.get("format"), str):
        return f"string({named(_cut(facts['format']))})"
    return named(_cut(kind)) if isinstance(kind, str) else "any"


def _object(facts: JSONObject, root: _Root, depth: int) -> str:
    properties = facts.get("properties")
    if not isinstance(properties, dict) or not properties or depth <= 0:
        return "object"
    required = facts.get("required")
    names = required if isinstance(required, list) else []
    needed = {name for name in names if isinstance(name, str)}
    root.look_at((len(properties) + len(names)) // _MEMBERS)
    members = [
        f"{named(_cut(name))}{'' if name in needed else '?'}: {_type(schema, root, depth - 1)}"
        for name, schema in islice(_needed_first(properties, needed), _MEMBERS)
    ]
    left = ["…"] if len(properties) > len(members) else []
    return f"{{{', '.join([*members, *left])}}}"


def _needed_first(
    properties: Mapping[str, JSONValue], needed: Container[str]
) -> list[tuple[str, JSONValue]]:
    """Return the properties, required ones first, then by name."""
    return sorted(properties.items(), key=lambda item: (item[0] not in needed, item[0]))


def _choices(values: list[JSONValue], root: _Root) -> str:
    named = [root.literal(value) for value in values[:_CHOICES]]
    left = len(values) - len(named)
    return _joined([*named, f"({left} more)"] if left else named)


def _range(facts: JSONObject) -> str:
    low, high = (_bound(facts.get(key)) for key in ("minimum", "maximum"))
    return f"({low}..{high})" if low or high else ""


def _bound(value: JSONValue) -> str:
    return _cut(_literal(value)) if isinstance(value, int | float) else ""


def _default(schema: JSONObject) -> str:
    """Return ` = ` and the default value; empty if it is `null` or longer than 40 characters."""
    value = schema.get("default")
    text = _literal(value)
    return "" if value is None or len(text) > _LONG else f" = {text}"


def _literal(value: JSONValue) -> str:
    return one_line(json.dumps(value, ensure_ascii=False))


def _joined(kinds: Iterable[str]) -> str:
    return "|".join(dict.fromkeys(kinds)) or "any"


def _cut(text: str) -> str:
    return shortened(text, _LONG)
