"""Overrides as plain functions: what they make of tools, and the laws that hold for any."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.errors import InvalidArgumentsError
from discovery_engine.rules.overrides.applying import Overrides
from discovery_engine.rules.overrides.override import Override
from discovery_engine.rules.patterns import TimeLimit
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import ToolRules
from discovery_engine.tools.arguments import Checker
from discovery_engine.tools.model import Tool, ToolName, canonical_json
from discovery_engine.tools.schemas import without_parameters
from tests.factories import make_tool
from tests.rows import rows

NAMES = st.text("abc_", min_size=1, max_size=3)
PATTERNS = st.sampled_from(["*", "a*", "!b*", "*_*", "/c$/", "s:a*", "{a,ab}"])
PARAMETERS = st.sampled_from(["owner", "repo", "title"])
WORDS = st.sampled_from(["x", "y", "z"])
OVERRIDES = st.builds(
    Override,
    patterns=st.lists(PATTERNS, min_size=1, max_size=2).map(tuple),
    servers=st.sampled_from([(), ("s",), ("t",)]),
    description=st.none() | WORDS,
    name=st.none() | NAMES.map(ToolName),
    tags=st.lists(WORDS, max_size=2).map(tuple),
    arguments=st.dictionaries(PARAMETERS, WORDS, max_size=2),
)
LISTS = st.lists(OVERRIDES, max_size=4)


def issue_schema(*properties: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {p: {"type": "string"} for p in properties}, **more}


def make_tools(*names: str) -> list[Tool]:
    schema = issue_schema("owner", "repo", "title", required=["owner", "title"])
    return [make_tool(name, "s", description="Says so.", inputSchema=schema) for name in names]


TOOLS = st.lists(NAMES, unique=True, max_size=5).map(lambda names: make_tools(*names))


class TestApplied:
    @pytest.mark.requirement("OVR-2")
    @given(LISTS, TOOLS)
    def test_twice_is_once(self, overrides: list[Override], tools: list[Tool]) -> None:
        once = Overrides(overrides).applied(tools)

        assert Overrides(overrides).applied(once) == once

    @pytest.mark.requirement("OVR-5")
    @given(LISTS, TOOLS)
    def test_no_two_tools_share_a_name(self, overrides: list[Override], tools: list[Tool]) -> None:
        applied = Overrides(overrides).applied(tools)

        assert len({tool.name for tool in applied}) == len(tools)

    @pytest.mark.requirement("OVR-10")
    @given(LISTS, TOOLS)
    def test_no_pinned_parameter_is_shown(
        self, overrides: list[Override], tools: list[Tool]
    ) -> None:
        for tool in Overrides(overrides).applied(tools):
            shown = {parameter.name for parameter in tool.parameters}
            assert not shown & set(tool.overridden.pinned)
            assert not any(
                f'"{name}"' in canonical_json(tool.input_schema) for name in tool.overridden.pinned
            )

    @pytest.mark.requirement("OVR-20")
    def test_in_doubt_an_entry_that_pins_matches_and_another_does_not(self) -> None:
        slow, at_once = ("/(a|aa)+$/",), TimeLimit(search=0.002, total=0.02)
        pins = Override(slow, arguments={"owner": "acme"})
        overrides = Overrides([Override(slow, description="New."), pins], limit=at_once)

        [tool] = overrides.applied(make_tools("a" * 50 + "!"))

        assert tool.overridden.by == (1,)
        assert {problem.subject for problem in overrides.problems} == {
            "overrides.0.pattern",
            "overrides.1.pattern",
        }


class TestRules:
    @pytest.mark.requirement("OVR-20")
    @given(
        LISTS,
        TOOLS,
        st.lists(
            st.builds(
                Rule,
                patterns=st.lists(PATTERNS, max_size=2).map(tuple),
                enabled=st.none() | st.booleans(),
            ),
            max_size=4,
        ),
    )
    def test_an_override_never_makes_usable_what_was_disabled(
        self, overrides: list[Override], tools: list[Tool], rules: list[Rule]
    ) -> None:
        before = ToolRules(rules).verdicts(tools, Verdict())
        after = ToolRules(rules).verdicts(Overrides(overrides).applied(tools), Verdict())

        for one, other in zip(before, after, strict=True):
            assert one.enabled or not other.enabled


ACME = Override(("a",), arguments={"owner": "hunter2", "repo": "${REPO}"})


class TestPinned:
    def tool(self, override: Override = ACME, **schema: Any) -> Tool:
        made = make_tool("a", "s", inputSchema=schema) if schema else make_tools("a")[0]
        return Overrides([override]).applied([made])[0]

    @pytest.mark.requirement("OVR-14")
    @rows(
        "schema",
        [
            pytest.param({"properties": {"owner": {"type": "integer"}}}, id="another type"),
            pytest.param({"properties": {"owner": {"enum": ["x"]}}}, id="no choice"),
            pytest.param({"oneOf": [{"maxProperties": 0}]}, id="no branch"),
            pytest.param({"maxProperties": 0}, id="one too many"),
            pytest.param({"not": {}}, id="nothing fits"),
            pytest.param({"const": {}}, id="only the empty one"),
        ],
    )
    def test_no_mistake_contains_the_value(self, schema: dict[str, Any]) -> None:
        tool = self.tool(replace(ACME, arguments={"owner": "hunter2"}), type="object", **schema)

        with pytest.raises(InvalidArgumentsError) as caught:
            Checker(tool).check({}, {"owner": "hunter2"})

        assert "hunter2" not in f"{caught.value}{caught.value.hint}"


NAMED = {
    "properties": st.dictionaries(PARAMETERS, st.just({"type": "string"})),
    "required": st.lists(PARAMETERS, unique=True),
    "dependentRequired": st.dictionaries(PARAMETERS, st.lists(PARAMETERS, unique=True)),
    "examples": st.lists(st.dictionaries(PARAMETERS, st.just("v")), max_size=2),
    "default": st.dictionaries(PARAMETERS, st.just("v")),
    "$ref": st.sampled_from(["#/$defs/one", "#/definitions/two", "#/$defs/gone", "else"]),
}
BRANCH = st.recursive(
    st.fixed_dictionaries({}, optional=NAMED),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **NAMED,
            "dependentSchemas": st.dictionaries(PARAMETERS, inner, max_size=1),
            "allOf": st.lists(inner, max_size=2),
            "if": inner,
        },
    ),
    max_leaves=3,
)
SCHEMAS = st.builds(
    lambda branch, one, two: {**branch, "$defs": {"one": one}, "definitions": {"two": two}},
    BRANCH,
    BRANCH,
    BRANCH,
)


class TestSchemas:
    @pytest.mark.requirement("OVR-10")
    @given(SCHEMAS, st.sets(PARAMETERS))
    def test_what_is_taken_out_is_nowhere_that_describes_the_arguments(
        self, schema: dict[str, Any], names: set[str]
    ) -> None:
        shown = without_parameters(schema, names)
        described = {
            key: value for key, value in shown.items() if key not in ("$defs", "definitions")
        }

        assert not any(f'"{name}"' in canonical_json(described) for name in names)
        assert without_parameters(shown, names) == shown

    def test_a_definition_that_describes_the_arguments_loses_them_too(self) -> None:
        one = {
            "properties": {"a": {}, "b": {}},
            "required": ["a"],
            "allOf": [{"$ref": "#/$defs/two"}],
        }
        two = {"properties": {"a": {"$ref": "#/$defs/one"}}}
        schema = {"$ref": "#/$defs/one", "$defs": {"one": one, "two": two, "three": one}}

        shown = without_parameters(schema, {"a"})

        assert shown["$defs"] == {
            "one": {"properties": {"b": {}}, "required": [], "allOf": [{"$ref": "#/$defs/two"}]},
            "two": {"properties": {}},
            "three": one,
        }
        assert jsonschema_rs.meta.is_valid(shown)

    def test_branches_without_end_are_cut_off(self) -> None:
        schema: dict[str, Any] = {"required": ["a"]}
        for _ in range(200):
            schema = {"allOf": [schema]}

        assert '"a"' not in canonical_json(without_parameters(schema, {"a"}))
