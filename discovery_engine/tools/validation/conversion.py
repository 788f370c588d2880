"""Values as a schema wants them, where what was written has one reading under it.

    "5" for an integer, "true" for a boolean, '["a"]' for an array        as JSON reads them
    null for an optional property that may not be null                    left out
    `filePath` where `file_path` is declared, and missing                 by the declared name

A reading is exact or there is none: "05" and "1e400" stay texts. Where a schema leaves several
possible, as between the branches of a union, the value stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import TypeVar

from discovery_engine._util.json import JSONObject, JSONValue, parse_finite, refuse_constant
from discovery_engine._util.text import folded
from discovery_engine.tools.validation.evaluation import Evaluation, kinds_of
from discovery_engine.tools.validation.graph import Schema, SchemaNode

T = TypeVar("T")

UNREAD = object()
"""No reading of a text."""
_BEGINNINGS = frozenset("-0123456789[{tTfFn")
_WHOLE = 2**53  # up to which every whole number is a float
_TEXT = 1024  # characters that are read in the time of a step
_OF_MEMBER = 0.1  # steps


class Conversion:
    """The conversion of values within one that does not fit; it costs steps of the evaluation."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        # A verdict is remembered by the identity of a value, which must not be taken by another.
        self._made: list[JSONValue] = []

    def fitting(self, schema: Schema, value: JSONObject) -> JSONObject | None:
        """`value` as it fits: itself, or with values converted; None if it does not.

        Raises:
            OutOfStepsError: If it takes too many steps.
            UnreadableSchemaError: If the schema has what is not known here.
        """
        reading: JSONObject = self._converted(schema, value)
        return reading if self._evaluation.holds(schema, reading) else None

    def _converted(self, schema: Schema, value: JSONValue) -> JSONValue:
        """`value` with everything converted that has one reading; perhaps it still does not fit."""
        self._evaluation.step()
        if not isinstance(schema, dict) or self._evaluation.holds(schema, value):
            return value
        if isinstance(value, str):
            return self._as_read(schema, value)
        nodes = list(self._evaluation.conjuncts(schema))
        if isinstance(value, dict):
            value = self._members(nodes, value)
        elif isinstance(value, list):
            value = self._elements(nodes, value)
        for node in nodes:
            for branches in (node.any_of, node.one_of):
                value = self._as_one_of(branches, value)
        return value

    def _as_read(self, schema: JSONObject, text: str) -> JSONValue:
        self._evaluation.step(len(text) / _TEXT)
        read = self._keep(exact_reading(text))
        if read is UNREAD or self._evaluation.kinds(schema).isdisjoint(kinds_of(read)):
            return text
        reading = self._converted(schema, read)
        return reading if self._evaluation.holds(schema, reading) else text

    def _members(self, nodes: Sequence[SchemaNode], value: JSONObject) -> JSONObject:
        required = {name for node in nodes for name in node.assertions.get("required", ())}
        members: JSONObject = {}
        if not any(node.patterns or node.others not in (True, False) for node in nodes):
            declared = {name for node in nodes for name in node.properties}
            self._evaluation.step(_OF_MEMBER * len(declared))
            value = self._keep(by_declared_names(value, declared))
        for name, member in value.items():
            self._evaluation.step(_OF_MEMBER)
            schemas = [
                schema for node in nodes for schema in self._evaluation.of_property(node, name)
            ]
            fits = all(self._evaluation.holds(schema, member) for schema in schemas)
            if not fits and member is None and name not in required and False not in schemas:
                continue
            members[name] = member if fits else self._for_all(schemas, member)
        return self._keep(members)

    def _elements(self, nodes: Sequence[SchemaNode], value: list[JSONValue]) -> list[JSONValue]:
        return self._keep(
            [
                self._for_all([node.of_element(position) for node in nodes], element)
                for position, element in enumerate(value)
            ]
        )

    def _for_all(self, schemas: Sequence[Schema], value: JSONValue) -> JSONValue:
        for schema in schemas:
            value = self._converted(schema, value)
        return value

    def _as_one_of(self, branches: Sequence[Schema], value: JSONValue) -> JSONValue:
        """Convert a value for the only branch that it can be converted to; keep it if one holds."""
        if any(self._evaluation.holds(branch, value) for branch in branches):
            return value
        selected = isinstance(value, dict) and [
            branch for branch in branches if self._evaluation.is_selected(branch, value)
        ]
        readings: dict[str, JSONValue] = {}
        for branch in selected or branches:
            reading = self._converted(branch, value)
            if self._evaluation.holds(branch, reading):
                readings[json.dumps(reading, sort_keys=True)] = reading
        return readings.popitem()[1] if len(readings) == 1 else value

    def _keep(self, value: T) -> T:
        self._made.append(value)
        return value


def by_declared_names(value: JSONObject, declared: Collection[str]) -> JSONObject:
    """`value`, with the names that only case and separators part from one that is declared.

    A name stays where it may mean several, or where another of the value may mean the same.
    """
    spellings: dict[str, list[str]] = {}
    for name in dict.fromkeys((*declared, *value)):
        spellings.setdefault(folded(name), []).append(name)
    names = {
        variants[0]: meant
        for meant, *variants in spellings.values()
        if len(variants) == 1 and meant not in value and variants[0] not in declared
    }
    return {names.get(name, name): member for name, member in value.items()}


def converted_places(before: JSONValue, after: JSONValue, place: str = "") -> Iterator[str]:
    """Where a value was converted, or left out: `limit`, `filter.ids.0`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, member in before.items():
            yield from converted_places(member, after.get(name, UNREAD), f"{place}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for position, pair in enumerate(zip(before, after, strict=True)):
            yield from converted_places(*pair, f"{place}.{position}")
    elif before is not after:
        yield place.removeprefix(".")


def exact_reading(text: str) -> JSONValue:
    """The value that a text is as JSON; `UNREAD` if it is no JSON, or a text, or not exact."""
    word = text.strip()
    if word[:1] not in _BEGINNINGS:
        return UNREAD
    try:
        return _EXACT.decode(word.lower() if word.lower() in ("true", "false") else word)
    except (ValueError, RecursionError):
        return UNREAD


def _number(text: str) -> JSONValue:
    number = parse_finite(text)
    if Decimal(repr(number)) != Decimal(text):
        raise ValueError("it has more digits than a float")
    return int(number) if number.is_integer() and abs(number) <= _WHOLE else number


def _object(members: list[tuple[str, JSONValue]]) -> JSONObject:
    mapping = dict(members)
    if len(mapping) != len(members):
        raise ValueError("it has a member twice")
    return mapping


_EXACT = json.JSONDecoder(
    parse_float=_number, parse_constant=refuse_constant, object_pairs_hook=_object
)
