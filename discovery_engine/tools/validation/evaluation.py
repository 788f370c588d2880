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
from discovery_engine._util.text import named
from discovery_engine.tools.limits import shortened
from discovery_engine.tools.signature import alternatives_text
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
_MAX_LISTED_PROPERTIES = 8  # properties, before the rest is counted
_MAX_MISTAKE_VALUE_LENGTH = 60  # characters of a value, or of a keyword
_LISTED = "the schemas listed in the"
_NULL = frozenset({"null"})
_KINDS = (
    (bool, frozenset({"boolean"})),  # before `int`, of which it is a subclass
    ((int, float), frozenset({"integer", "number"})),
    (str, frozenset({"string"})),
    ((list, tuple), frozenset({"array"})),
    (dict, frozenset({"object"})),
)
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
        """Return the validator of a subschema of the graph."""
        validator = self._by_schema.get(id(schema))
        if validator is None:
            validator = self._by_schema[id(schema)] = self.alone(assertions)
        return validator

    def matches(self, pattern: str, name: str) -> bool:
        validator = self._by_pattern.get(pattern)
        if validator is None:
            validator = self._by_pattern[pattern] = self.alone({"pattern": pattern})
        return validator.is_valid(name)

    def alone(self, assertions: JSONObject) -> jsonschema_rs.Validator:
        dialect = self.graph.root.get("$schema")
        return self._compile({"$schema": dialect, **assertions} if dialect else assertions)


class Evaluation:
    """The evaluation of one value, within `steps`; `pause` is called after every hundred."""

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
        """Yield what is wrong with `value`, from the outside in; nothing if it fits.

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
        yield from self._mistakes_of_branching(node, value, path)
        if isinstance(value, dict):
            yield from self._mistakes_of_properties(node, value, path)
        elif isinstance(value, list | tuple):
            yield from self._mistakes_of_elements(node, value, path)

    # A value in a value costs two frames for each subschema on the way, and Python has a thousand:
    # that is why what follows are loops, and no generators.

    def holds(self, schema: Schema, value: JSONValue) -> bool:
        """Return whether `value` fits; raises the same errors as `mistakes`."""
        if not isinstance(schema, dict):
            return schema
        key = id(schema), id(value)
        verdict = self._verdicts.get(key)
        self.step(1 if verdict is None else _OF_REMEMBERING)
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

    def conjuncts(self, schema: Schema) -> Iterator[SchemaNode]:
        """The parts that hold for the same value in any case: references and `allOf`, too."""
        left, seen = [schema], set[int]()
        while left:
            part = left.pop()
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                self.step()
                node = self._graph.node(part)
                yield node
                left += [*node.references, *node.all_of]

    def kinds(self, schema: Schema) -> frozenset[str]:
        """The types that a schema names, in any of its branches; empty if it names none."""
        kinds: set[str] = set()
        left, seen = [schema], set[int]()
        while left:
            for node in self.conjuncts(left.pop()):
                named = node.assertions.get("type", ())
                kinds.update([named] if isinstance(named, str) else named)
                kinds.update(*map(kinds_of, _choices(node)))
                left += [
                    branch for branch in (*node.any_of, *node.one_of) if id(branch) not in seen
                ]
                seen.update(map(id, (*node.any_of, *node.one_of)))
        return frozenset(kinds)

    def step(self, count: float = 1) -> None:
        """Count what is done; raises `OutOfStepsError` beyond what is allowed."""
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
            self.step(_OF_COMPILING)
        if isinstance(value, str):
            self.step(len(value) / _TEXT)
        elif isinstance(value, dict | list | tuple) and not node.assertions.keys() <= _SHALLOW:
            self.step(size_of(value) / _VALUES)
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
        schemas: list[Schema] = []
        if node.condition is not None:
            schemas.append(node.then if self.holds(node.condition, value) else node.otherwise)
        if node.dependents and isinstance(value, dict):
            schemas += [inner for name, inner in node.dependents.items() if name in value]
        return schemas

    def _properties_fit(self, node: SchemaNode, value: JSONObject) -> bool:
        if node.patterns or node.others is not True or node.names is not True:
            for name, member in value.items():
                if node.names is not True and not self.holds(node.names, name):
                    return False
                for inner in self.of_property(node, name):
                    if not self.holds(inner, member):
                        return False
            return True
        for name, inner in node.properties.items():
            if name in value and not self.holds(inner, value[name]):
                return False
        return True

    def of_property(self, node: SchemaNode, name: str) -> list[Schema]:
        """The schemas of the property `name`."""
        schemas = [node.properties[name]] if name in node.properties else []
        for pattern, inner in node.patterns.items():
            self.step(1 + len(name) / _TEXT)
            if self._keywords.matches(pattern, name):
                schemas.append(inner)
        return schemas or [node.others]

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

    def _mistakes_of_branching(
        self, node: SchemaNode, value: JSONValue, path: Path
    ) -> Iterator[Mistake]:
        if node.any_of and not self._fitting(node.any_of, value, enough=1):
            yield from self._mistakes_of_all(node.any_of, "anyOf", value, path)
        if node.one_of and (count := self._fitting(node.one_of, value, enough=2)) != 1:
            if count:
                yield Mistake(path, self._mistake_of_several(node.one_of, value))
            else:
                yield from self._mistakes_of_all(node.one_of, "oneOf", value, path)
        if node.negated is not False and self.holds(node.negated, value):
            message = f"{_json(node.negated)} is not allowed for {self._shown(value)}"
            yield Mistake(path, message)

    def _mistakes_of_all(
        self, branches: Sequence[Schema], keyword: str, value: JSONValue, path: Path
    ) -> Iterator[Mistake]:
        """Yield what is wrong by the branch that is meant, or what all possible branches lack."""
        kinds = kinds_of(value)
        meant = [b for b in branches if not (own := self.kinds(b)) or own & kinds]
        counts = [0] * len(meant)
        if isinstance(value, dict):
            selected = [b for b in meant if self.is_selected(b, value)]
            if meant and not selected and (mistakes := list(self._unselected(meant, value, path))):
                yield from mistakes
                return
            meant = selected or meant
            counts = [len(value.keys() & self._named_in(branch)) for branch in meant]
        by_branch = [
            list(islice(self.mistakes(branch, value, path), _MAX_LISTED_PROPERTIES))
            for branch in meant
        ]
        best = max(counts, default=0)
        if by_branch and all(by_branch) and counts.count(best) == 1:
            yield from by_branch[counts.index(best)]
        elif (
            by_branch
            and all(by_branch)
            and all(m.missing and m.path == path for f in by_branch for m in f)
        ):
            names = alternatives_text([[named(m.missing) for m in f] for f in by_branch])
            yield Mistake(path, f"{names} is missing")
        else:
            message = (
                f"{self._shown(value)} is not valid under any of {_LISTED} {keyword!r} keyword"
            )
            yield Mistake(path, message)

    def is_selected(self, branch: Schema, value: JSONObject) -> bool:
        """Return whether `value` has all the values that tell this branch from others."""
        return all(
            self.holds(inner, value[name])
            for node in self.conjuncts(branch)
            for name, inner in node.properties.items()
            if name in value and isinstance(inner, dict) and _choices(self._graph.node(inner))
        )

    def _unselected(
        self, branches: Sequence[Schema], value: JSONObject, path: Path
    ) -> Iterator[Mistake]:
        """The values by which no branch is selected, with those that would select one."""
        listed: dict[str, list[JSONValue]] = {}
        for branch in branches:
            for node in self.conjuncts(branch):
                for name, inner in node.properties.items():
                    if name in value and isinstance(inner, dict):
                        listed.setdefault(name, []).extend(_choices(self._graph.node(inner)))
        for name, choices in listed.items():
            if choices and value[name] not in choices:
                values = ", ".join(dict.fromkeys(map(_json, choices[:_MAX_LISTED_PROPERTIES])))
                yield Mistake((*path, name), f"{self._shown(value[name])} is none of {values}")

    def _named_in(self, branch: Schema) -> set[str]:
        return {name for node in self.conjuncts(branch) for name in node.properties}

    def _mistake_of_several(self, branches: Sequence[Schema], value: JSONValue) -> str:
        """That more than one branch holds, by what they require if that is the reason."""
        fitting = [
            {n for node in self.conjuncts(b) for n in node.assertions.get("required", ())}
            for b in branches
            if self.holds(b, value)
        ]
        own = [sorted(names - set.intersection(*fitting)) for names in fitting]
        if all(own):
            return f"only {alternatives_text(own)} may be given"
        return f"{self._shown(value)} is valid under more than one of {_LISTED} 'oneOf' keyword"

    def _mistakes_of_properties(
        self, node: SchemaNode, value: JSONObject, path: Path
    ) -> Iterator[Mistake]:
        unexpected: list[str] = []
        for name, member in value.items():
            if not self.holds(node.names, name):
                for mistake in self.mistakes(node.names, name, path):
                    yield Mistake(path, mistake.message)
            for inner in self.of_property(node, name):
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
            yield from self.mistakes(node.of_element(position), element, (*path, position))
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
    """Convert an error of the validator, found in a value at `path`."""
    kind = error.kind
    missing = kind.property if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required) else ""
    return Mistake((*path, *error.instance_path), str(error.message), missing)


def kinds_of(value: JSONValue) -> frozenset[str]:
    """The types of JSON Schema that a value has."""
    if isinstance(value, float) and not value.is_integer():
        return frozenset({"number"})
    return next((kinds for type_, kinds in _KINDS if isinstance(value, type_)), _NULL)


def _choices(node: SchemaNode) -> Sequence[JSONValue]:
    """The values that a subschema lists; empty if it lists none."""
    assertions = node.assertions
    choices: Sequence[JSONValue] = assertions.get("enum", ())
    return [assertions["const"]] if "const" in assertions else choices


def _unexpected(names: Sequence[str]) -> str:
    named = ", ".join(f"'{name}'" for name in names[:_MAX_LISTED_PROPERTIES])
    more = (
        f" and {len(names) - _MAX_LISTED_PROPERTIES} more"
        if len(names) > _MAX_LISTED_PROPERTIES
        else ""
    )
    verb = "was" if len(names) == 1 else "were"
    return f"Additional properties are not allowed ({named}{more} {verb} unexpected)"


def _json(value: JSONValue) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # an integer of thousands of digits
        return "a number beyond all bounds"
    return shortened(text, _MAX_MISTAKE_VALUE_LENGTH)
