"""A value against a schema, each subschema asked but once about each value.

The time is in proportion to the schema times the value, where the validator would follow every
way through the schema anew. Keywords without subschemas are left to that validator. What is done
is counted in steps of some microseconds, and ends after so many.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

import jsonschema_rs
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.validation.cost import DEPENDENT, size_of
from discovery_engine.tools.validation.graph import (
    Schema,
    SchemaGraph,
    SchemaNode,
    UnreadableSchemaError,
)

Compile: TypeAlias = Callable[[JSONObject], jsonschema_rs.Validator]
Path: TypeAlias = tuple[str | int, ...]

_BREATH = 100  # steps between pauses: less than a millisecond
_OF_COMPILING = 4  # steps
_OF_REMEMBERING = 0.1
_TEXT = 1024  # characters that are matched in the time of a step
_VALUES = 64  # values that are compared in the time of a step
_SMALL = 500  # values; the validator writes each of them into its message, for a microsecond each
_NAMED = 8  # properties, before the rest is counted
_SHOWN = 60  # characters of a value, or of a keyword
_LISTED = "the schemas listed in the"
_SHALLOW = frozenset(
    ("type", "required", "minItems", "maxItems", "minProperties", "maxProperties", "format")
)
"""Keywords that look at an object or an array, and not into it."""


class Mistake(Struct, frozen=True):
    path: Path
    message: str
    missing: str = ""
    """The property that is required and not there, if that is the mistake."""


class OutOfStepsError(Exception):
    """There is no answer within the steps that were allowed."""


class Keywords:
    """Validators of the keywords without subschemas, made when they are first needed."""

    def __init__(self, graph: SchemaGraph, compile_: Compile, mask: str | None = None) -> None:
        """`mask` stands for values in messages, as it does for `compile_`."""
        self.graph = graph
        self.mask = mask
        self._compile = compile_
        self._by_schema: dict[int, jsonschema_rs.Validator] = {}
        self._by_pattern: dict[str, jsonschema_rs.Validator] = {}

    def has(self, schema: JSONObject) -> bool:
        return id(schema) in self._by_schema

    def of(self, schema: JSONObject, assertions: JSONObject) -> jsonschema_rs.Validator:
        """Of a subschema of the graph."""
        made = self._by_schema.get(id(schema))
        if made is None:
            made = self._by_schema[id(schema)] = self.alone(assertions)
        return made

    def matches(self, pattern: str, name: str) -> bool:
        made = self._by_pattern.get(pattern)
        if made is None:
            made = self._by_pattern[pattern] = self.alone({"pattern": pattern})
        return made.is_valid(name)

    def alone(self, assertions: JSONObject) -> jsonschema_rs.Validator:
        dialect = self.graph.root.get("$schema")
        return self._compile({"$schema": dialect, **assertions} if dialect else assertions)


class Evaluation:
    """Of one value, within `steps`; `pause` is called after every hundred."""

    def __init__(
        self, keywords: Keywords, *, steps: int, pause: Callable[[], object] | None = None
    ) -> None:
        self._keywords = keywords
        self._graph = keywords.graph
        self._left: float = steps
        self._pause = pause
        self._until_pause: float = _BREATH
        self._verdicts: dict[tuple[int, int], bool] = {}
        self._told: set[tuple[int, Path]] = set()

    def mistakes(self, schema: Schema, value: JSONValue, path: Path = ()) -> Iterator[Mistake]:
        """What is wrong with `value`, from the outside in; nothing if it fits.

        Raises:
            OutOfStepsError: If it takes too many steps; what was found until then is right.
            UnreadableSchemaError: If the schema has what is not known here.
        """
        if self.holds(schema, value) or (id(schema), path) in self._told:
            return
        self._told.add((id(schema), path))
        if not isinstance(schema, dict):
            yield Mistake(path, f"no value is allowed, not {self._shown(value)}")
            return
        node = self._graph.node(schema)
        yield from self._own_mistakes(schema, node, value, path)
        for inner in (*node.references, *node.all_of, *self._applicable(node, value)):
            yield from self.mistakes(inner, value, path)
        for message in self._branching(node, value):
            yield Mistake(path, message)
        if isinstance(value, dict):
            yield from self._mistakes_of_properties(node, value, path)
        elif isinstance(value, list | tuple):
            yield from self._mistakes_of_elements(node, value, path)

    # A value in a value costs two frames for each subschema on the way, and Python has a thousand:
    # that is why what follows are loops, and no generators.

    def holds(self, schema: Schema, value: JSONValue) -> bool:
        """Whether `value` fits; raises as `mistakes`."""
        if not isinstance(schema, dict):
            return schema
        key = id(schema), id(value)
        verdict = self._verdicts.get(key)
        self._step(1 if verdict is None else _OF_REMEMBERING)
        if verdict is None:
            node = self._graph.node(schema)
            if node.is_unevaluated:
                raise UnreadableSchemaError(DEPENDENT)
            self._verdicts[key] = True  # a recursive reference adds nothing
            verdict = self._verdicts[key] = (
                self._fits_itself(schema, node, value)
                and self._fits_alongside(node, value)
                and (not isinstance(value, dict) or self._properties_fit(node, value))
                and (not isinstance(value, list | tuple) or self._elements_fit(node, value))
            )
        return verdict

    def _step(self, count: float = 1) -> None:
        self._left -= count
        if self._left < 0:
            raise OutOfStepsError
        self._until_pause -= count
        if self._until_pause < 0:
            self._until_pause = _BREATH
            if self._pause is not None:
                self._pause()

    def _fits_itself(self, schema: JSONObject, node: SchemaNode, value: JSONValue) -> bool:
        if not node.assertions:
            return True
        if not self._keywords.has(schema):
            self._step(_OF_COMPILING)
        if isinstance(value, str):
            self._step(len(value) / _TEXT)
        elif isinstance(value, dict | list | tuple) and not node.assertions.keys() <= _SHALLOW:
            self._step(size_of(value) / _VALUES)
        return self._keywords.of(schema, node.assertions).is_valid(value)

    def _fits_alongside(self, node: SchemaNode, value: JSONValue) -> bool:
        for inner in (*node.references, *node.all_of):
            if not self.holds(inner, value):
                return False
        if node.any_of and not self._fitting(node.any_of, value, enough=1):
            return False
        if node.one_of and self._fitting(node.one_of, value, enough=2) != 1:
            return False
        for inner in self._applicable(node, value):
            if not self.holds(inner, value):
                return False
        return node.negated is False or not self.holds(node.negated, value)

    def _fitting(self, schemas: Sequence[Schema], value: JSONValue, *, enough: int) -> int:
        count = 0
        for schema in schemas:
            if self.holds(schema, value):
                count += 1
                if count == enough:
                    break
        return count

    def _applicable(self, node: SchemaNode, value: JSONValue) -> list[Schema]:
        """The subschemas that count because of what the value is."""
        found: list[Schema] = []
        if node.condition is not None:
            found.append(node.then if self.holds(node.condition, value) else node.otherwise)
        if node.dependents and isinstance(value, dict):
            found += [inner for name, inner in node.dependents.items() if name in value]
        return found

    def _properties_fit(self, node: SchemaNode, value: JSONObject) -> bool:
        if node.patterns or node.others is not True or node.names is not True:
            for name, member in value.items():
                if node.names is not True and not self.holds(node.names, name):
                    return False
                for inner in self._of_property(node, name):
                    if not self.holds(inner, member):
                        return False
            return True
        for name, inner in node.properties.items():
            if name in value and not self.holds(inner, value[name]):
                return False
        return True

    def _of_property(self, node: SchemaNode, name: str) -> list[Schema]:
        found = [node.properties[name]] if name in node.properties else []
        for pattern, inner in node.patterns.items():
            self._step(1 + len(name) / _TEXT)
            if self._keywords.matches(pattern, name):
                found.append(inner)
        return found or [node.others]

    def _elements_fit(self, node: SchemaNode, value: Sequence[JSONValue]) -> bool:
        for inner, element in zip(node.prefix, value, strict=False):
            if not self.holds(inner, element):
                return False
        if node.items is not True:
            for element in islice(value, len(node.prefix), None):
                if not self.holds(node.items, element):
                    return False
        return node.contains is None or self._contains(node, node.contains, value)

    def _contains(self, node: SchemaNode, wanted: Schema, value: Sequence[JSONValue]) -> bool:
        enough = node.least if node.most is None else node.most + 1
        count = 0
        for element in value:
            if count >= enough:
                break
            count += self.holds(wanted, element)
        return count >= node.least and (node.most is None or count <= node.most)

    def _branching(self, node: SchemaNode, value: JSONValue) -> Iterator[str]:
        if node.any_of and not self._fitting(node.any_of, value, enough=1):
            yield f"{self._shown(value)} is not valid under any of {_LISTED} 'anyOf' keyword"
        if node.one_of and (count := self._fitting(node.one_of, value, enough=2)) != 1:
            fits = "valid under more than one" if count else "not valid under any"
            yield f"{self._shown(value)} is {fits} of {_LISTED} 'oneOf' keyword"
        if node.negated is not False and self.holds(node.negated, value):
            yield f"{_json(node.negated)} is not allowed for {self._shown(value)}"

    def _mistakes_of_properties(
        self, node: SchemaNode, value: JSONObject, path: Path
    ) -> Iterator[Mistake]:
        unexpected: list[str] = []
        for name, member in value.items():
            if not self.holds(node.names, name):
                for mistake in self.mistakes(node.names, name, path):
                    yield Mistake(path, mistake.message)
            for inner in self._of_property(node, name):
                if inner is False and inner is node.others and name not in node.properties:
                    unexpected.append(name)
                else:
                    yield from self.mistakes(inner, member, (*path, name))
        if unexpected:
            yield Mistake(path, _unexpected(unexpected))

    def _mistakes_of_elements(
        self, node: SchemaNode, value: Sequence[JSONValue], path: Path
    ) -> Iterator[Mistake]:
        for position, element in enumerate(value):
            inner = node.prefix[position] if position < len(node.prefix) else node.items
            yield from self.mistakes(inner, element, (*path, position))
        if node.contains is not None and not self._contains(node, node.contains, value):
            yield Mistake(path, f"None of {self._shown(value)} are valid under the given schema")

    def _own_mistakes(
        self, schema: JSONObject, node: SchemaNode, value: JSONValue, path: Path
    ) -> Iterator[Mistake]:
        if self._fits_itself(schema, node, value):
            return
        needed = node.assertions.get("required", ())
        if size_of(value) <= _SMALL and len(needed) <= _SMALL:
            with suppress(ValueError):  # it nests too deeply to be written into a message
                errors = self._keywords.of(schema, node.assertions).iter_errors(value)
                yield from [mistake_of(error, path) for error in errors]
                return
        for keyword, assertion in node.assertions.items():
            if keyword == "required" and isinstance(value, dict):
                for name in assertion:
                    if name not in value:
                        yield Mistake(path, f"{json.dumps(name)} is a required property", name)
            elif not self._keywords.alone({keyword: assertion}).is_valid(value):
                yield Mistake(
                    path, f"{self._shown(value)} does not fit {keyword} {_json(assertion)}"
                )

    def _shown(self, value: JSONValue) -> str:
        if self._keywords.mask is not None:
            return self._keywords.mask
        if size_of(value) <= _SMALL:
            return _json(value)
        if isinstance(value, str):
            return f"a text of {len(value):,} characters"
        kind, members = ("object", "properties") if isinstance(value, dict) else ("array", "items")
        return f"the {kind} of {len(value):,} {members}"


def mistake_of(error: jsonschema_rs.ValidationError, path: Path = ()) -> Mistake:
    """What the validator found, in a value that stands at `path`."""
    kind = error.kind
    missing = kind.property if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required) else ""
    return Mistake((*path, *error.instance_path), str(error.message), missing)


def _unexpected(names: Sequence[str]) -> str:
    named = ", ".join(f"'{name}'" for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    verb = "was" if len(names) == 1 else "were"
    return f"Additional properties are not allowed ({named}{more} {verb} unexpected)"


def _json(value: JSONValue) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # an integer of thousands of digits
        return "a number beyond all bounds"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
