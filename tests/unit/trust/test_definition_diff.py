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
from tests.unit.trust.mutations import MUTATIONS, TOOL, moved


def schema(**members: Any) -> JSONObject:
    return {"name": "x", "inputSchema": {"type": "object", **members}}


def argument(**members: Any) -> JSONObject:
    return schema(properties={"a": members})


TEXT = {"type": "string"}

SKILL: JSONObject = {
    "uri": "skill://a/SKILL.md",
    "frontmatter": {"name": "a", "description": "old", "allowed-tools": "Read"},
    "resources": [
        {"uri": "skill://a/SKILL.md", "digest": "sha256:1", "size": 3},
        {"uri": "skill://a/b.md", "digest": "sha256:2", "size": 1},
    ],
    "text": "one two",
}


def skill(name: str, value: Any) -> JSONObject:
    return {**SKILL, name: value}


OTHER_FILE = [SKILL["resources"][0], {"uri": "skill://a/b.md", "digest": "sha256:3", "size": 1}]

TABLE = [
    pytest.param(SKILL, skill("text", "one six"), "text", id="instructions of a skill"),
    pytest.param(SKILL, skill("resources", OTHER_FILE), "text", id="file of a skill"),
    pytest.param(SKILL, skill("resources", OTHER_FILE[:1]), "text", id="file of a skill gone"),
    pytest.param(
        SKILL,
        skill("frontmatter", {**SKILL["frontmatter"], "description": "new", "x": "1"}),
        "text",
        id="description of a skill",
    ),
    pytest.param(
        SKILL,
        skill("frontmatter", {**SKILL["frontmatter"], "allowed-tools": "Read Bash"}),
        "breaking",
        id="tools that a skill allows",
    ),
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


@pytest.mark.requirement("TRU-17")
@rows(("before", "after", "weight"), TABLE)
def test_a_change_weighs_what_it_costs_a_caller(
    before: JSONObject, after: JSONObject, weight: str
) -> None:
    assert heaviest(diff_definitions(before, after)) == weight


@pytest.mark.requirement("TRU-17", "EXT-6")
def test_the_instructions_of_a_skill_are_compared_as_one_text() -> None:
    files = [{**SKILL["resources"][0], "digest": "sha256:4"}, SKILL["resources"][1]]
    after = {**SKILL, "resources": files, "text": "one six"}

    assert diff_definitions(SKILL, after) == (Change("text", "text", "one two", "one six"),)


@pytest.mark.requirement("TRU-17")
@rows("mutation", MUTATIONS)
def test_whatever_is_withheld_has_a_difference_to_show(mutation: str) -> None:
    assert diff_definitions(TOOL, MUTATIONS[mutation])


@pytest.mark.requirement("TRU-17")
@given(seed=st.integers())
def test_mere_order_has_none(seed: int) -> None:
    assert diff_definitions(TOOL, moved(random.Random(seed))) == ()
