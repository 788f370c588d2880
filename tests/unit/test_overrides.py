"""Overrides as plain functions: what they make of tools, and the laws that hold for any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.diagnostics import Origin
from discovery_engine.errors import ConfigurationError, InvalidArgumentsError
from discovery_engine.overrides.applying import Overrides
from discovery_engine.overrides.override import Override
from discovery_engine.overrides.pinning import pinned_values
from discovery_engine.rules.regexes import TimeLimit
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import ToolRules
from discovery_engine.secrets.resolver import EnvironmentResolver
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
    @pytest.mark.requirement("OVR-1")
    @given(TOOLS)
    def test_no_override_changes_nothing(self, tools: list[Tool]) -> None:
        assert Overrides(()).applied(tools) == tools

    @pytest.mark.requirement("OVR-1")
    @given(LISTS, TOOLS)
    def test_twice_is_once(self, overrides: list[Override], tools: list[Tool]) -> None:
        once = Overrides(overrides).applied(tools)

        assert Overrides(overrides).applied(once) == once

    @pytest.mark.requirement("OVR-1")
    @given(LISTS, TOOLS)
    def test_none_any_more_is_as_it_was(self, overrides: list[Override], tools: list[Tool]) -> None:
        assert Overrides(()).applied(Overrides(overrides).applied(tools)) == tools

    @pytest.mark.requirement("OVR-4")
    @given(LISTS, TOOLS)
    def test_what_the_server_said_stays(self, overrides: list[Override], tools: list[Tool]) -> None:
        for before, after in zip(tools, Overrides(overrides).applied(tools), strict=True):
            assert (after.source, after.fingerprint) == (before.source, before.fingerprint)
            assert after.upstream_name == before.upstream_name
            assert after.definition == before.definition

    @pytest.mark.requirement("OVR-5")
    @given(LISTS, TOOLS)
    def test_no_two_tools_share_a_name(self, overrides: list[Override], tools: list[Tool]) -> None:
        applied = Overrides(overrides).applied(tools)

        assert len({tool.name for tool in applied}) == len(tools)

    @pytest.mark.requirement("OVR-5")
    @given(LISTS, TOOLS)
    def test_who_gets_a_name_does_not_depend_on_the_order_of_the_tools(
        self, overrides: list[Override], tools: list[Tool]
    ) -> None:
        forth, back = Overrides(overrides).applied(tools), Overrides(overrides).applied(tools[::-1])

        assert forth == back[::-1]

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

    @pytest.mark.requirement("OVR-2")
    def test_the_later_entry_wins_field_by_field_and_tags_add_up(self) -> None:
        overrides = Overrides(
            [
                Override(("a",), name=ToolName("x"), description="First.", tags=("p", "q")),
                Override(("a",), description="Second.", tags=("q", "r"), arguments={"owner": "o"}),
                Override(("b",), name=ToolName("y")),
            ]
        )

        [tool] = overrides.applied(make_tools("a"))

        assert (tool.name, tool.description, tool.overridden.tags) == (
            "x",
            "Second.",
            ("p", "q", "r"),
        )
        assert (tool.overridden.pinned, tool.overridden.by) == ({"owner": 1}, (0, 1))

    @pytest.mark.requirement("OVR-1")
    def test_patterns_read_the_servers_name_behind_the_prefix(self) -> None:
        tools = [make_tool("log", "git", prefix="g_"), make_tool("diff", "git", prefix="g_")]
        overrides = Overrides(
            [
                Override(("git:g_log",), name=ToolName("diff")),
                Override(("diff", "g_diff"), description="The second."),
                Override(("log",), description="Nobody's."),
                Override(("*",), servers=("other",), description="Nobody's."),
            ]
        )

        log, diff = overrides.applied(tools)

        assert (log.name, log.upstream_name, log.description) == ("diff", "log", "")
        assert (diff.name, diff.description) == ("g_diff", "The second.")

    @pytest.mark.requirement("OVR-5")
    @rows(
        ("renamed", "names", "told"),
        [
            pytest.param({"a": "b"}, ["a", "b", "c"], 1, id="taken"),
            pytest.param({"a": "x", "b": "x"}, ["a", "b", "c"], 2, id="wanted twice"),
            pytest.param({"a": "b", "b": "a"}, ["b", "a", "c"], 0, id="swapped"),
            pytest.param(
                {"a": "x", "b": "x", "c": "a"}, ["a", "b", "c"], 3, id="one after another"
            ),
            pytest.param({"a": "a"}, ["a", "b", "c"], 0, id="its own"),
        ],
    )
    def test_a_name_that_is_taken_is_reported_and_not_given(
        self, renamed: Mapping[str, str], names: list[str], told: int
    ) -> None:
        entries = [
            Override((old,), name=ToolName(new), description="New.") for old, new in renamed.items()
        ]
        overrides = Overrides(entries)

        applied = overrides.applied(make_tools("a", "b", "c"))

        assert [tool.name for tool in applied] == names
        assert sum(bool(tool.overridden.problems) for tool in applied) == told
        assert len(overrides.problems) == told
        assert {tool.description for tool in applied if tool.given_name in renamed} == {"New."}

    @pytest.mark.requirement("OVR-15")
    def test_a_pinned_argument_that_the_tool_does_not_take_is_reported(self) -> None:
        origin = Origin("f", 3, 5)
        overrides = Overrides([Override(("a",), arguments={"ower": 1, "owner": 2}, origin=origin)])

        [tool] = overrides.applied(make_tools("a"))

        assert tool.overridden.problems == ("it does not take 'ower', which is pinned",)
        [problem] = overrides.problems
        assert (problem.origin, problem.subject) == (origin, "overrides.0.arguments.ower")

    @pytest.mark.requirement("OVR-6")
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

    @pytest.mark.requirement("OVR-20")
    @rows(
        ("rules", "is_enabled"),
        [
            pytest.param([("delete_*", False)], False, id="denied by the server's name"),
            pytest.param([("tidy", False)], False, id="denied by the new name"),
            pytest.param([("s:tidy", False)], False, id="denied by the new name in full"),
            pytest.param([("s:delete_all", False)], False, id="denied by the old name in full"),
            pytest.param([("tidy", True), ("delete_*", False)], False, id="no way round a deny"),
            pytest.param([("delete_*", True), ("tidy", False)], True, id="enabled first"),
            pytest.param([("tidy", True)], False, id="no way into a whitelist"),
            pytest.param([("delete_all", True)], True, id="in a whitelist"),
        ],
    )
    def test_a_deny_reads_both_names(self, rules: list[tuple[str, bool]], is_enabled: bool) -> None:
        overrides = Overrides([Override(("delete_all",), name=ToolName("tidy"))])
        judge = ToolRules([Rule((pattern,), enabled=enabled) for pattern, enabled in rules])

        [verdict] = judge.verdicts(overrides.applied(make_tools("delete_all")), Verdict())

        assert verdict.enabled is is_enabled


ACME = Override(("a",), arguments={"owner": "hunter2", "repo": "${REPO}"})


class TestPinned:
    def tool(self, override: Override = ACME, **schema: Any) -> Tool:
        made = make_tool("a", "s", inputSchema=schema) if schema else make_tools("a")[0]
        return Overrides([override]).applied([made])[0]

    @pytest.mark.requirement("OVR-11")
    def test_references_at_any_depth_get_the_values_of_the_moment(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("from-a-file\n")
        override = Override(
            ("a",),
            arguments={"owner": {"of": ["${WHO}", 3, None, "$${WHO}"]}, "title": "${file:token}"},
            origin=Origin(str(tmp_path / "discovery.yaml")),
        )

        values = pinned_values(self.tool(override), [override], EnvironmentResolver({"WHO": "me"}))

        assert values == {"owner": {"of": ["me", 3, None, "${WHO}"]}, "title": "from-a-file"}

    @pytest.mark.requirement("OVR-11")
    def test_every_reference_without_a_value_is_reported_with_its_place(self) -> None:
        override = replace(
            ACME, arguments={"owner": "${A}", "title": "${B}"}, origin=Origin("f", 2)
        )

        with pytest.raises(ConfigurationError) as caught:
            pinned_values(self.tool(override), [override], EnvironmentResolver({}))

        assert [str(problem) for problem in caught.value.problems] == [
            "f:2:0: overrides.0.arguments.owner: ${A} is not set [OVERRIDE_VALUE_UNSET]",
            "f:2:0: overrides.0.arguments.title: ${B} is not set [OVERRIDE_VALUE_UNSET]",
        ]

    @pytest.mark.requirement("OVR-12")
    def test_a_caller_cannot_give_it(self) -> None:
        with pytest.raises(InvalidArgumentsError) as caught:
            Checker(self.tool()).check({"title": "t", "owner": "me"}, {"owner": "o", "repo": "r"})

        assert caught.value.mistakes == ("owner is given by the configuration",)

    @pytest.mark.requirement("OVR-13")
    def test_both_are_checked_together(self) -> None:
        schema = issue_schema(
            "owner", "repo", oneOf=[{"required": ["owner"]}, {"required": ["repo"]}]
        )
        tool = self.tool(Override(("a",), arguments={"owner": "o"}), **schema)

        Checker(tool).check({}, {"owner": "o"})
        with pytest.raises(InvalidArgumentsError):
            Checker(tool).check({"repo": "r"}, {"owner": "o"})

    @pytest.mark.requirement("OVR-13")
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

    def test_an_entry_says_what_it_gives_without_the_values(self) -> None:
        override = replace(ACME, name=ToolName("x"), description="New.", tags=("t", "u"))

        assert override.gives() == "name 'x', description, tags t, u, pins owner, repo"
        assert override.without_values().arguments == {"owner": None, "repo": None}


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

    @given(SCHEMAS)
    def test_taking_nothing_out_changes_nothing(self, schema: dict[str, Any]) -> None:
        assert without_parameters(schema, set()) == schema

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

    def test_a_property_of_a_property_stays(self) -> None:
        schema = issue_schema("a") | {"properties": {"b": issue_schema("a", required=["a"])}}

        assert without_parameters(schema, {"a"}) == schema

    @rows(
        "schema",
        [
            pytest.param({"properties": 3, "required": "a", "allOf": {}, "examples": 1}, id="odd"),
            pytest.param({"required": [3, None, ["a"], {}], "allOf": [True, 3]}, id="odd items"),
            pytest.param(
                {"dependentRequired": 3, "dependencies": [], "if": 4, "$ref": 5}, id="more"
            ),
            pytest.param({"$ref": "#/$defs/a", "$defs": []}, id="no definitions"),
        ],
    )
    def test_a_schema_that_is_none_does_no_harm(self, schema: dict[str, Any]) -> None:
        assert without_parameters(schema, {"b"}) == schema

    def test_branches_without_end_are_cut_off(self) -> None:
        schema: dict[str, Any] = {"required": ["a"]}
        for _ in range(200):
            schema = {"allOf": [schema]}

        assert '"a"' not in canonical_json(without_parameters(schema, {"a"}))
