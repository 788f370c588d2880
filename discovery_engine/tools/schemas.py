"""JSON Schemas of arguments, with parameters taken out: those that the owner has fixed.

Schemas are untrusted: whatever one contains, the result is a schema that is no larger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

_DEPTH = 20  # branches in branches; one that is deeper has no use for a reader
_BRANCHES = ("allOf", "anyOf", "oneOf")
_BRANCH = ("if", "then", "else", "not")
_SCHEMA_BY_PARAMETER = ("dependentSchemas", "dependencies")
_DEFINITIONS = ("$defs", "definitions")


def may_take(schema: Schema, name: str) -> bool:
    """Whether an object of this schema may have the property `name`, as far as is plain."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return True
    return any(key in schema for key in ("$ref", "patternProperties", *_BRANCHES, *_BRANCH))


def without_parameters(schema: Schema, names: Collection[str]) -> Schema:
    """The schema of an object as if it had never had the properties `names`.

    They go from its branches, its examples, and the definitions that describe it, too.
    """
    pruning = _Pruning(frozenset(names))
    shown: Schema = pruning.object(schema, _DEPTH)
    for reference in pruning.references:  # grows meanwhile: definitions refer to others
        group, _, name = reference.removeprefix("#/").partition("/")
        definitions = shown.get(group)
        if group in _DEFINITIONS and isinstance(definitions, dict) and name in definitions:
            pruned = pruning.object(definitions[name], _DEPTH)
            shown = {**shown, group: {**definitions, name: pruned}}
    return shown


class _Pruning:
    """Takes properties out of the schemas that hold for one object."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self.references: list[str] = []
        """Where else it is described, each place once."""
        self._met: set[str] = set()

    def object(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema
        if not depth:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in self._met:
            self._met.add(reference)
            self.references.append(reference)
        return {key: self._member(key, value, depth - 1) for key, value in schema.items()}

    def _member(self, key: str, value: Any, depth: int) -> Any:
        if key in ("required", "examples", *_BRANCHES) and isinstance(value, list):
            prune = self.object if key in _BRANCHES else self._mention
            return [prune(item, depth) for item in self._others(value)]
        if key in ("properties", "default"):
            return self._mention(value, depth)
        if key == "dependentRequired" or key in _SCHEMA_BY_PARAMETER:
            return self._dependencies(value, depth)
        return self.object(value, depth) if key in _BRANCH else value

    def _dependencies(self, value: Any, depth: int) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: list(self._others(needs))
            if isinstance(needs, list)
            else self.object(needs, depth)
            for name, needs in value.items()
            if name not in self._names
        }

    def _mention(self, value: Any, _depth: int) -> Any:
        """An object without those of its members."""
        if not isinstance(value, dict):
            return value
        return {name: member for name, member in value.items() if name not in self._names}

    def _others(self, items: list[Any]) -> Iterator[Any]:
        return (item for item in items if not (isinstance(item, str) and item in self._names))
