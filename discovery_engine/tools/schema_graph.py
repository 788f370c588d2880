"""A JSON Schema as a graph: the subschemas of a value, and the subschemas of its members.

A `$ref` is followed only within the schema. Schemas are untrusted: validity is left to the
validator, and keywords of an unexpected type are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.schemas import pointed

Schema: TypeAlias = JSONObject | bool

_DRAFTS = {"draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019}
_NEWEST = 2020
_LONE_REFERENCES = 7  # up to this draft, keywords beside a `$ref` are ignored
_SINCE = {
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "dependentSchemas": 2019,
    "minContains": 2019,
    "maxContains": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "$recursiveRef": 2019,
    "$dynamicRef": 2020,
    "prefixItems": 2020,
}
"""The draft that introduced a keyword."""
_UNTIL = {"$recursiveRef": 2019}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_APPLYING = frozenset(
    (
        *_SINCE,
        *("$ref", "allOf", "anyOf", "oneOf", "not", "then", "else", "dependencies"),
        *("properties", "patternProperties", "additionalProperties", "items", "additionalItems"),
    )
)
_SILENT = frozenset(
    (
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
        *("$comment", "$defs", "definitions", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly"),
    )
)
_DATA = frozenset(("const", "enum", "default", "examples"))
"""Keywords whose values are data, even if they look like schemas."""


class UnreadableSchemaError(Exception):
    """A schema that cannot be represented here; the message says why in a few words."""


class SchemaNode(Struct, frozen=True):
    """The parts of one subschema."""

    references: tuple[Schema, ...] = ()
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    negated: Schema = False
    condition: Schema | None = None
    then: Schema = True
    otherwise: Schema = True
    dependents: Mapping[str, Schema] = {}
    """The schemas that apply if a property is present."""
    properties: Mapping[str, Schema] = {}
    patterns: Mapping[str, Schema] = {}
    others: Schema = True
    """The schema of the properties that no name or pattern covers."""
    names: Schema = True
    prefix: tuple[Schema, ...] = ()
    items: Schema = True
    """The schema of the elements after `prefix`."""
    contains: Schema | None = None
    least: int = 1
    most: int | None = None
    """The most elements that may match `contains`; `least` is the fewest."""
    assertions: JSONObject = {}
    """The keywords about the value itself, not its members."""
    is_unevaluated: bool = False
    """True if it depends on which members other subschemas have evaluated."""

    def of_element(self, position: int) -> Schema:
        return self.prefix[position] if position < len(self.prefix) else self.items

    @property
    def alongside(self) -> Iterator[Schema]:
        """The subschemas that apply to the same value."""
        yield from (*self.references, *self.all_of, *self.any_of, *self.one_of)
        yield from (self.negated, self.then, self.otherwise, *self.dependents.values())
        if self.condition is not None:
            yield self.condition


class SchemaGraph:
    def __init__(self, root: JSONObject) -> None:
        self.root = root
        self._nodes: dict[int, SchemaNode] = {}

    def node(self, schema: JSONObject) -> SchemaNode:
        """Return the node of a subschema of the root, cached by identity.

        Raises:
            UnreadableSchemaError: If a reference cannot be resolved within the root.
        """
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = self._read(schema)
        return node

    @cached_property
    def draft(self) -> int:
        uri = str(self.root.get("$schema"))
        return next((number for mark, number in _DRAFTS.items() if mark in uri), _NEWEST)

    def _read(self, schema: JSONObject) -> SchemaNode:
        keywords = {
            keyword: value
            for keyword, value in schema.items()
            if _SINCE.get(keyword, 0) <= self.draft <= _UNTIL.get(keyword, _NEWEST)
        }
        references = tuple(
            self._target(keywords[keyword])
            for keyword in _REFERENCES
            if isinstance(keywords.get(keyword), str)
        )
        if references and self.draft <= _LONE_REFERENCES:
            return SchemaNode(references)
        prefix, items = keywords.get("prefixItems"), keywords.get("items")
        if isinstance(items, list):
            prefix, items = items, keywords.get("additionalItems")
        dependencies = _mapped(keywords.get("dependencies"))
        return SchemaNode(
            references,
            all_of=_listed(keywords.get("allOf")),
            any_of=_listed(keywords.get("anyOf")),
            one_of=_listed(keywords.get("oneOf")),
            negated=keywords.get("not", False),
            condition=keywords.get("if"),
            then=keywords.get("then", True) if "if" in keywords else True,
            otherwise=keywords.get("else", True) if "if" in keywords else True,
            dependents={**dependencies, **_mapped(keywords.get("dependentSchemas"))},
            properties=_mapped(keywords.get("properties")),
            patterns=_mapped(keywords.get("patternProperties")),
            others=keywords.get("additionalProperties", True),
            names=keywords.get("propertyNames", True),
            prefix=_listed(prefix),
            items=True if items is None else items,
            contains=keywords.get("contains"),
            least=int(keywords.get("minContains", 1)),
            most=int(keywords["maxContains"]) if "maxContains" in keywords else None,
            assertions=_assertions(keywords),
            is_unevaluated=not keywords.keys().isdisjoint(_UNEVALUATED),
        )

    def _target(self, reference: str) -> Schema:
        """Resolve a reference. No subschema has an `$id` of its own, so its place is irrelevant."""
        base, _, fragment = unquote(reference).partition("#")
        if self._anchors is None:
            raise UnreadableSchemaError("it has parts with addresses of their own")
        target = None
        if not base or base == self.root.get("$id"):
            is_pointer = fragment[:1] in ("", "/")
            target = pointed(self.root, fragment) if is_pointer else self._anchors.get(fragment)
        if not isinstance(target, dict | bool):
            raise UnreadableSchemaError(f"it refers to {reference!r:.60}")
        return target

    @cached_property
    def _anchors(self) -> Mapping[str, JSONValue] | None:
        """The subschemas by anchor; None if a subschema has an `$id` of its own."""
        address = "$id" if self.draft > 4 else "id"  # noqa: PLR2004 - the draft that renamed it
        anchors: dict[str, JSONValue] = {}
        left: list[JSONValue] = list(_parts(self.root))
        while left:
            part = left.pop()
            if isinstance(part, dict):
                if isinstance(part.get(address), str):
                    return None
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(name := part.get(keyword), str):
                        anchors[name] = None if name in anchors else part
            left += _parts(part)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := self.root.get(keyword), str):
                anchors[name] = None if name in anchors else self.root
        return anchors


def _parts(value: JSONValue) -> Iterator[JSONValue]:
    if isinstance(value, dict):
        yield from (part for key, part in value.items() if key not in _DATA)
    elif isinstance(value, list):
        yield from value


def _listed(value: JSONValue) -> tuple[Schema, ...]:
    return tuple(value) if isinstance(value, list) else ()


def _mapped(value: JSONValue) -> Mapping[str, Schema]:
    """The members that are schemas: of `dependencies`, some are lists."""
    members = value.items() if isinstance(value, dict) else ()
    return {name: schema for name, schema in members if isinstance(schema, dict | bool)}


def _assertions(keywords: JSONObject) -> JSONObject:
    of_itself = {k: v for k, v in keywords.items() if k not in _APPLYING and k not in _SILENT}
    members = keywords.get("dependencies")
    lists = {k: v for k, v in members.items() if isinstance(v, list)} if members else {}
    return {**of_itself, "dependencies": lists} if lists else of_itself
