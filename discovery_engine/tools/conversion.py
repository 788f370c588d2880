"""Converts arguments to the types of their schema, if only one conversion is possible.

    "5" for an integer, "true" for a boolean, '["a"]' for an array        decoded as JSON
    null for an optional property that may not be null                    left out
    `filePath` where `file_path` is declared, and missing                 renamed

Conversions are exact: "05" and "1e400" stay strings. If several are possible, as between the
branches of a union, the value stays unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from functools import partial

import jsonschema_rs

from discovery_engine._util.json import JSONObject, JSONValue, parse_finite, refuse_constant
from discovery_engine._util.text import folded
from discovery_engine.tools.mistakes import (
    Errors,
    branches_of,
    choices_of,
    missing_in,
)
from discovery_engine.tools.schema_graph import UnreadableSchemaError
from discovery_engine.tools.subschemas import Path, Subschemas

UNREAD = object()
"""Returned for a text without a reading."""
_LEFT_OUT = object()
_BEGINNINGS = frozenset("-0123456789[{tTfFn")
_WHOLE = 2**53  # up to here a float represents every integer
_ROUNDS = 8  # nesting of JSON in strings; each round converts one level
_MAX_ERRORS = 2_000  # of all rounds and branches; each takes some 50 us
_KINDS = (
    (bool, frozenset({"boolean"})),  # before `int`, of which it is a subclass
    ((int, float), frozenset({"integer", "number"})),
    (str, frozenset({"string"})),
    (list, frozenset({"array"})),
    (dict, frozenset({"object"})),
)


class _TooManyError(Exception):
    """Listing the errors would exceed `_MAX_ERRORS`."""


class Conversion:
    """The conversion of one value, at the places where the validator finds errors."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._left = _MAX_ERRORS

    def fitting(self, value: JSONObject, errors: Errors) -> JSONObject | None:
        """Return a converted copy of `value` that is valid; None if there is none.

        Args:
            value: The invalid value.
            errors: The errors that the validator of the whole schema lists for it.
        """
        try:
            reading: JSONValue = self._fitting(self._subschemas.whole, value, errors)
        except (_TooManyError, UnreadableSchemaError, RecursionError, ValueError):
            return None
        return reading if isinstance(reading, dict) else None

    def _fitting(
        self, validator: jsonschema_rs.Validator, value: JSONValue, errors: Errors
    ) -> JSONValue:
        for _ in range(_ROUNDS):
            if not errors:
                return value
            before = value
            for error in errors:
                change = partial(self._converted, error)
                value = _replaced(value, tuple(error.instance_path), change)
            if value is before:
                break
            errors = self._errors(validator, value)
        return UNREAD

    def _errors(self, validator: jsonschema_rs.Validator, value: JSONValue) -> Errors:
        errors = list(validator.iter_errors(value))
        self._left -= _count(errors)
        if self._left < 0:
            raise _TooManyError
        return errors

    def _converted(self, error: jsonschema_rs.ValidationError, value: JSONValue) -> JSONValue:
        """Return the only conversion of `value` that fits; `value` if there is none or several."""
        kind = error.kind.name
        is_property = isinstance([None, *error.instance_path][-1], str)
        if value is None and is_property and kind != "falseSchema":
            return _LEFT_OUT
        if branches := branches_of(error):
            return self._as_one_of(error, branches, value)
        if isinstance(value, str):
            reading = exact_reading(value)
            return reading if reading is not UNREAD and _is_wanted(error, reading) else value
        if isinstance(value, dict) and kind in ("required", "additionalProperties"):
            [node, *_] = self._subschemas.conjuncts(tuple(error.schema_path[:-1]))
            if not node.patterns and isinstance(node.others, bool):
                missing = missing_in(error)
                return by_declared_names(value, {*node.properties, *([missing] if missing else [])})
        return value

    def _as_one_of(
        self, error: jsonschema_rs.ValidationError, branches: Sequence[Errors], value: JSONValue
    ) -> JSONValue:
        """Convert a value for the only branch that it can be converted to."""
        readings: dict[str, JSONValue] = {}
        for position in range(len(branches)):
            validator = self._subschemas.validator((*error.schema_path, position))
            reading = self._fitting(validator, value, self._errors(validator, value))
            if reading is not UNREAD:
                readings[json.dumps(reading, sort_keys=True)] = reading
        return readings.popitem()[1] if len(readings) == 1 else value


def _count(errors: Errors) -> int:
    return sum(1 + sum(map(_count, branches_of(error))) for error in errors)


def _replaced(value: JSONValue, path: Path, change: Callable[[JSONValue], JSONValue]) -> JSONValue:
    """Return `value` with `change` applied at `path`; `value` itself if that changes nothing."""
    if not path:
        return change(value)
    step, *rest = path
    try:
        before = value[step]
    except (KeyError, IndexError, TypeError):  # an earlier change has put something else there
        return value
    after = _replaced(before, tuple(rest), change)
    if after is before:
        return value
    copy = value.copy()
    if after is _LEFT_OUT:
        del copy[step]
    else:
        copy[step] = after
    return copy


def _is_wanted(error: jsonschema_rs.ValidationError, reading: JSONValue) -> bool:
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Type):
        return not _kinds_of(reading).isdisjoint(error.kind.types)
    return any(
        reading == choice and _kinds_of(reading) == _kinds_of(choice)
        for choice in choices_of(error)
    )


def _kinds_of(value: JSONValue) -> frozenset[str]:
    """Return the types of JSON Schema that a value has."""
    if isinstance(value, float) and not value.is_integer():
        return frozenset({"number"})
    return next((kinds for type_, kinds in _KINDS if isinstance(value, type_)), frozenset({"null"}))


def by_declared_names(value: JSONObject, declared: Collection[str]) -> JSONObject:
    """Return `value` with names replaced by declared names of other case or separators.

    A name stays if it is ambiguous, or if `value` has the declared name already.
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
    """Yield the places that were converted or left out, such as `limit` or `filter.ids.0`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, member in before.items():
            yield from converted_places(member, after.get(name, UNREAD), f"{place}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for position, pair in enumerate(zip(before, after, strict=True)):
            yield from converted_places(*pair, f"{place}.{position}")
    elif before is not after:
        yield place.removeprefix(".")


def exact_reading(text: str) -> JSONValue:
    """Return a text decoded as JSON; `UNREAD` if it is invalid, a string, or not exact."""
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
