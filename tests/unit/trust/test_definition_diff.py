"""Changes in the words of those who call a tool: breaking, compatible, or text."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.trust.definition_diff import Change, diff_definitions, heaviest
from tests.rows import rows
from tests.unit.trust.mutations import MUTATIONS, TOOL, changed, moved


def schema(**members: Any) -> JSONObject:
    return {"name": "x", "inputSchema": {"type": "object", **members}}


def argument(**members: Any) -> JSONObject:
    return schema(properties={"a": members})


TEXT = {"type": "string"}

TABLE = [
    pytest.param(schema(), schema(properties={"a": TEXT}), "compatible", id="optional argument"),
    pytest.param(
        schema(), schema(properties={"a": TEXT}, required=["a"]), "breaking", id="needed argument"
    ),
    pytest.param(schema(properties={"a": TEXT}), schema(), "breaking", id="argument gone"),
    pytest.param(
        schema(properties={"a": TEXT}),
        schema(properties={"a": TEXT}, required=["a"]),
        "breaking",
        id="now needed",
    ),
    pytest.param(
        schema(properties={"a": TEXT}, required=["a"]),
        schema(properties={"a": TEXT}),
        "compatible",
        id="no longer needed",
    ),
    pytest.param(argument(type="string"), argument(type="integer"), "breaking", id="type"),
    pytest.param(
        argument(type="string"), argument(type=["null", "string"]), "compatible", id="type wider"
    ),
    pytest.param(
        argument(type="integer"), argument(type="number"), "compatible", id="integer to number"
    ),
    pytest.param(
        argument(type="number"), argument(type="integer"), "breaking", id="number to integer"
    ),
    pytest.param(argument(enum=["a"]), argument(enum=["a", "b"]), "compatible", id="enum wider"),
    pytest.param(argument(enum=["a", "b"]), argument(enum=["a"]), "breaking", id="enum narrower"),
    pytest.param(argument(), argument(enum=["a"]), "breaking", id="enum new"),
    pytest.param(argument(enum=["a"]), argument(), "compatible", id="enum gone"),
    pytest.param(argument(maximum=1), argument(maximum=2), "compatible", id="maximum up"),
    pytest.param(argument(maximum=2), argument(maximum=1), "breaking", id="maximum down"),
    pytest.param(argument(minLength=2), argument(minLength=1), "compatible", id="minimum down"),
    pytest.param(argument(minLength=1), argument(minLength=2), "breaking", id="minimum up"),
    pytest.param(argument(pattern="a"), argument(pattern="b"), "breaking", id="pattern"),
    pytest.param(argument(pattern="a"), argument(), "compatible", id="pattern gone"),
    pytest.param(argument(default=1), argument(default=2), "compatible", id="default"),
    pytest.param(argument(const=1), argument(const=True), "breaking", id="1 and true"),
    pytest.param(
        schema(additionalProperties=False), schema(), "compatible", id="others allowed again"
    ),
    pytest.param(
        schema(), schema(additionalProperties=True), "compatible", id="others allowed in words"
    ),
    pytest.param(schema(), schema(additionalProperties=False), "breaking", id="others forbidden"),
    pytest.param(
        argument(items={"type": "string"}),
        argument(items={"type": "integer"}),
        "breaking",
        id="items",
    ),
    pytest.param(argument(description="a"), argument(description="b"), "text", id="described"),
    pytest.param({"description": "a"}, {"description": "b"}, "text", id="description"),
    pytest.param({"title": "a"}, {}, "text", id="title gone"),
    pytest.param(
        {"annotations": {"readOnlyHint": True}}, {"annotations": {}}, "breaking", id="claim gone"
    ),
    pytest.param({"annotations": {"title": "a"}}, {}, "text", id="annotation title"),
    pytest.param({"_meta": {}}, {"_meta": {"a": 1}}, "compatible", id="meta"),
    pytest.param({"outputSchema": {}}, {}, "breaking", id="output gone"),
    pytest.param({}, {"outputSchema": {}}, "breaking", id="output new"),
    pytest.param(
        {"outputSchema": {"properties": {}}},
        {"outputSchema": {"properties": {"a": TEXT}}},
        "compatible",
        id="output has more",
    ),
    pytest.param(
        {"outputSchema": {"properties": {"a": TEXT}}},
        {"outputSchema": {"properties": {"a": {"type": ["string", "null"]}}}},
        "breaking",
        id="output wider",
    ),
    pytest.param(
        {"outputSchema": {"description": "a"}},
        {"outputSchema": {"description": "b"}},
        "text",
        id="output described",
    ),
    pytest.param({"inputSchema": {}}, {"inputSchema": True}, "breaking", id="no schema any more"),
    pytest.param(
        schema(**{"$defs": {"p": {"type": "string"}}}),
        schema(**{"$defs": {"p": {"type": "integer"}}}),
        "breaking",
        id="definition",
    ),
]


@pytest.mark.requirement("TRU-21")
@rows(("before", "after", "weight"), TABLE)
def test_a_change_weighs_what_it_costs_a_caller(
    before: JSONObject, after: JSONObject, weight: str
) -> None:
    assert heaviest(diff_definitions(before, after)) == weight


@pytest.mark.requirement("TRU-21")
@rows("mutation", MUTATIONS)
def test_whatever_is_withheld_has_a_difference_to_show(mutation: str) -> None:
    assert diff_definitions(TOOL, MUTATIONS[mutation])


@pytest.mark.requirement("TRU-21")
@given(seed=st.integers())
def test_mere_order_has_none(seed: int) -> None:
    assert diff_definitions(TOOL, moved(random.Random(seed))) == ()


def test_the_heaviest_comes_first_with_its_place_and_both_values() -> None:
    after = changed("description", to="Other.")
    after["inputSchema"]["properties"]["to"]["type"] = "integer"

    assert diff_definitions(TOOL, after) == (
        Change("breaking", "inputSchema.properties.to.type", "string", "integer"),
        Change("text", "description", TOOL["description"], "Other."),
    )


def test_an_argument_that_comes_and_is_needed_is_reported_once() -> None:
    after = schema(properties={"a": TEXT}, required=["a"])

    assert diff_definitions(schema(), after) == (
        Change("breaking", "inputSchema.properties.a", None, TEXT),
    )


@pytest.mark.requirement("TRU-21")
@rows(
    ("before", "after"),
    [
        pytest.param(schema(properties=[]), schema(properties={}), id="no map of properties"),
        pytest.param(schema(required=["a"]), schema(required=["a", "a"]), id="said twice"),
    ],
)
def test_what_makes_no_sense_is_shown_whole(before: JSONObject, after: JSONObject) -> None:
    assert diff_definitions(before, after) == (Change("breaking", "", before, after),)


@rows(
    ("before", "after", "expected"),
    [
        pytest.param(
            schema(patternProperties={"^x": {"type": "string"}}),
            schema(patternProperties={"^x": {"type": ["string", "null"]}}),
            Change(
                "compatible",
                "inputSchema.patternProperties.^x.type",
                "string",
                ["null", "string"],
            ),
            id="patternProperties",
        ),
        pytest.param(
            schema(**{"$defs": {"d": {"description": "a"}}}),
            schema(**{"$defs": {"d": {"description": "b"}}}),
            Change("text", "inputSchema.$defs.d.description", "a", "b"),
            id="$defs",
        ),
        pytest.param(
            schema(definitions={"d": {"description": "a"}}),
            schema(definitions={"d": {"description": "b"}}),
            Change("text", "inputSchema.definitions.d.description", "a", "b"),
            id="definitions",
        ),
        *(
            pytest.param(
                argument(**{key: {"description": "a"}}),
                argument(**{key: {"description": "b"}}),
                Change("text", f"inputSchema.properties.a.{key}.description", "a", "b"),
                id=key,
            )
            for key in ("items", "not", "additionalProperties")
        ),
        pytest.param(
            argument(items={"type": "string"}),
            argument(items=True),
            Change("breaking", "inputSchema.properties.a.items", {"type": "string"}, True),
            id="a schema becomes something else",
        ),
        pytest.param(
            argument(**{"x-unit": "m"}),
            argument(**{"x-unit": "km"}),
            Change("compatible", "inputSchema.properties.a.x-unit", "m", "km"),
            id="an extension",
        ),
        pytest.param(
            argument(type="object", required=["b", "c"]),
            argument(type="object", required=["b"]),
            Change("compatible", "inputSchema.properties.a.required", ["b", "c"], ["b"]),
            id="fewer are needed",
        ),
        pytest.param(
            argument(type="object", required=["b"]),
            argument(type="object", required=["c"]),
            Change("breaking", "inputSchema.properties.a.required", ["b"], ["c"]),
            id="others are needed",
        ),
        pytest.param(
            argument(type="string"),
            argument(type="number"),
            Change("breaking", "inputSchema.properties.a.type", "string", "number"),
            id="another type",
        ),
        pytest.param(
            argument(type="integer"),
            argument(type="string"),
            Change("breaking", "inputSchema.properties.a.type", "integer", "string"),
            id="an integer becomes a text",
        ),
        pytest.param(
            argument(minimum="a"),
            argument(minimum=1),
            Change("breaking", "inputSchema.properties.a.minimum", "a", 1),
            id="a bound that was none",
        ),
        pytest.param(
            {"name": "x", "annotations": {"title": "a"}},
            {"name": "x", "annotations": {"title": "b"}},
            Change("text", "annotations.title", "a", "b"),
            id="a title",
        ),
        pytest.param(
            {"name": "x", "annotations": {"readOnlyHint": True}},
            {"name": "x", "annotations": {"readOnlyHint": False}},
            Change("breaking", "annotations.readOnlyHint", True, False),
            id="a claim",
        ),
        pytest.param(
            {"name": "x", "annotations": {"readOnlyHint": True}},
            {"name": "x"},
            Change("breaking", "annotations.readOnlyHint", True, None),
            id="no claim any more",
        ),
        pytest.param(
            schema(properties={"a": {}}, required=["a"]),
            schema(properties={"a": 7}, required=["a"]),
            Change("breaking", "inputSchema.properties.a", {}, 7),
            id="no schema any more",
        ),
    ],
)
def test_a_change_has_its_place_and_both_values(
    before: JSONObject, after: JSONObject, expected: Change
) -> None:
    assert diff_definitions(before, after) == (expected,)


def test_a_changed_output_is_reported_with_its_place() -> None:
    before = {"name": "x", "outputSchema": {"properties": {"a": {"type": "string"}}}}
    after = {"name": "x", "outputSchema": {"properties": {"a": {"type": "integer"}}}}

    assert diff_definitions(before, after) == (
        Change("breaking", "outputSchema.properties.a.type", "string", "integer"),
    )


def test_the_heaviest_of_several_weights_is_the_breaking_one() -> None:
    changes = [Change(weight, "", 1, 2) for weight in ("text", "compatible", "breaking")]

    assert heaviest(changes) == "breaking"
    assert heaviest(changes[:2]) == "compatible"
    assert heaviest([]) is None
