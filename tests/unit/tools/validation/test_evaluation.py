"""Values evaluated in counted steps: the same verdicts as the validator, in bounded time."""

from __future__ import annotations

from functools import partial
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.validation.evaluation import (
    Evaluation,
    Keywords,
    OutOfStepsError,
)
from discovery_engine.tools.validation.graph import SchemaGraph, UnreadableSchemaError
from tests.rows import rows

DIALECTS = (
    None,
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
compiled = partial(
    jsonschema_rs.validator_for, offline=True, pattern_options=jsonschema_rs.RegexOptions()
)

names = st.sampled_from(["a", "b", "ab", "x"])
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from(["", "a", "ab", 1.0])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
counts = st.integers(0, 2)
assertions: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["object", "array", "string", "integer", "number", "null"]),
    "enum": st.lists(values, min_size=1, max_size=2),
    "minLength": counts,
    "minItems": counts,
    "maxProperties": counts,
    "pattern": st.sampled_from(["^a", "b$"]),
    "required": st.lists(names, min_size=1, max_size=2, unique=True),
    "uniqueItems": st.booleans(),
    "minimum": st.integers(-1, 2),
}


def some_of(keywords: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[JSONObject]:
    """A schema of one to three keywords."""
    each = [st.tuples(st.just(name), value) for name, value in keywords.items()]
    return st.lists(st.one_of(each), min_size=1, max_size=3).map(dict)


def applying(inner: st.SearchStrategy[JSONObject]) -> st.SearchStrategy[JSONObject]:
    some = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(names, inner, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "properties": by_name,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, min_size=1),
        "additionalProperties": inner | st.booleans(),
        "propertyNames": inner,
        "items": inner,
        "prefixItems": some,
        "additionalItems": inner,
        "contains": inner,
        "minContains": counts,
        "maxContains": counts,
        "dependentSchemas": by_name,
        "dependencies": st.dictionaries(names, inner | st.just(["x"]), min_size=1, max_size=2),
        "dependentRequired": st.dictionaries(names, st.just(["x"]), max_size=2),
    }
    return some_of(keywords | assertions)


leaves = some_of(assertions)
referring = st.sampled_from(["#/$defs/one", "#/definitions/two"]).map(lambda to: {"$ref": to})
schemas = st.recursive(leaves | referring, applying, max_leaves=4)
roots = st.builds(
    lambda said, one, two, dialect: {
        **said,
        "$defs": {"one": one},
        "definitions": {"two": two},
        **({"$schema": dialect} if dialect else {}),
    },
    applying(schemas),
    applying(leaves),
    applying(leaves),
    st.sampled_from(DIALECTS),
)


def evaluation(schema: JSONObject, *, steps: int = 100_000) -> Evaluation:
    return Evaluation(Keywords(SchemaGraph(schema), compiled), steps=steps)


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(roots, values)
def test_its_verdict_is_the_validators_and_a_mistake_is_reported_if_there_is_one(
    schema: JSONObject, value: JSONValue
) -> None:
    validator = validator_of(schema)
    if validator is None:
        return
    fits = validator.is_valid(value)

    assert evaluation(schema).holds(schema, value) == fits
    assert bool(list(evaluation(schema).mistakes(schema, value))) != fits


def validator_of(schema: JSONObject) -> jsonschema_rs.Validator | None:
    try:
        return compiled(schema)
    except ValueError:  # a keyword that this draft writes otherwise
        return None


def tree(*operations: str) -> JSONObject:
    """Expressions, each of an operation with two operands."""
    operand = {"$ref": "#/$defs/expression"}
    branches: list[JSONObject] = [
        {
            "type": "object",
            "properties": {"left": operand, "op": {"const": name}, "right": operand},
            "required": ["op", "left", "right"],
            "additionalProperties": False,
        }
        for name in operations
    ]
    return {
        "type": "object",
        "properties": {"e": operand},
        "$defs": {"expression": {"anyOf": [*branches, {"type": "number"}]}},
    }


def expression(leaf: JSONValue, *, levels: int) -> JSONObject:
    value = leaf
    for _ in range(levels):
        value = {"left": 1, "op": "add", "right": value}
    return {"e": value}


def chain(keyword: str, links: int) -> JSONObject:
    """Definitions of which each branches twice into the next."""
    definitions: JSONObject = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(links)
    }
    definitions[f"d{links}"] = {"type": "string"}
    return {"type": "object", "properties": {"n": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.mark.requirement("THR-10")
@rows("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_chain_that_doubles_with_every_link_takes_a_few_steps_for_each(keyword: str) -> None:
    schema = chain(keyword, links=40)

    assert not evaluation(schema, steps=400).holds(schema, {"n": 5})
    assert evaluation(schema, steps=400).holds(schema, {"n": "text"}) == (keyword != "oneOf")


@pytest.mark.requirement("THR-10")
@rows("levels", [5, 20, 100])
def test_a_recursive_schema_takes_steps_in_proportion_to_the_value(levels: int) -> None:
    schema = tree("add", "subtract", "multiply", "divide")
    steps = 40 * (levels + 1)

    assert evaluation(schema, steps=steps).holds(schema, expression(1, levels=levels))
    told = list(
        evaluation(schema, steps=2 * steps).mistakes(schema, expression("x", levels=levels))
    )

    assert [mistake.path for mistake in told] == [("e", *["right"] * levels)]


def test_what_takes_more_steps_than_allowed_has_no_answer() -> None:
    schema = {"items": {"type": "integer"}}

    with pytest.raises(OutOfStepsError):
        evaluation(schema, steps=500).holds(schema, list(range(1_000)))


@rows(
    "schema",
    [
        pytest.param({"$ref": "#node", "$defs": {"x": {"$anchor": "node", "type": "string"}}}),
        pytest.param({"$dynamicRef": "#t", "$defs": {"x": {"$dynamicAnchor": "t", "not": {}}}}),
        pytest.param({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "string"}}}),
        pytest.param({"$ref": "#/allOf/0/not", "allOf": [{"not": {"type": "string"}}]}),
        pytest.param({"$id": "urn:x", "$ref": "urn:x#/$defs/a", "$defs": {"a": False}}),
    ],
)
def test_every_kind_of_reference_inside_the_schema_is_followed(schema: JSONObject) -> None:
    assert evaluation(schema).holds(schema, 1) == compiled(schema).is_valid(1) is False


@rows(
    "schema",
    [
        pytest.param({"$ref": "https://example.invalid/x"}, id="elsewhere"),
        pytest.param({"$ref": "#/$defs/none"}, id="nowhere"),
        pytest.param({"$ref": "#/$defs/a", "$defs": {"a": {"$id": "urn:a"}}}, id="addresses"),
        pytest.param({"unevaluatedProperties": False}, id="unevaluated"),
    ],
)
def test_what_cannot_be_read_is_said_and_never_guessed(schema: JSONObject) -> None:
    with pytest.raises(UnreadableSchemaError):
        evaluation(schema).holds(schema, {"a": 1})
