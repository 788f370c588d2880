from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.sources.source_result import allow_rule, deny_rule, switch_rules
from discovery_engine.errors import Origin
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import ToolRules
from tests.factories import make_tool
from tests.rows import rows

HERE = Origin("file")
NAMES = st.text(st.sampled_from("ab*?[]{},!/\\:|^$.-("), min_size=1, max_size=8).filter(
    lambda name: name != "*"
)


def enabled(rules: tuple[Rule | None, ...], names: list[str], server: str = "s") -> list[str]:
    tools = [make_tool(name, server) for name in names]
    verdicts = ToolRules([rule for rule in rules if rule]).verdicts(tools, Verdict())
    return [name for name, verdict in zip(names, verdicts, strict=True) if verdict.enabled]


@given(NAMES, NAMES)
def test_a_literal_pattern_matches_its_name_and_no_other(name: str, other: str) -> None:
    rule = deny_rule("s", [name], HERE)

    assert enabled((rule,), [name]) == []
    if other.lower() != name.lower():
        assert enabled((rule,), [other]) == [other]


@given(NAMES, st.lists(NAMES, min_size=1, max_size=3))
def test_an_allow_list_leaves_its_names_alone(server: str, names: list[str]) -> None:
    rule = allow_rule(server, names, HERE)
    missing = "not-named"

    assert enabled((rule,), [*names, missing], server) == names


@rows(
    ("switches", "left"),
    [
        pytest.param({"s_*": False}, [], id="whole-server"),
        pytest.param({"s*": False}, [], id="by-the-start-of-its-name"),
        pytest.param({"*": "deny"}, [], id="everything"),
        pytest.param({"*_put": False}, ["get", "get_all"], id="by-the-end"),
        pytest.param({"s_put": "false"}, ["get", "get_all"], id="one-tool"),
        pytest.param({"s_*": False, "s_get*": True}, ["get", "get_all"], id="exception"),
        pytest.param({"s_*": "deny", "s_get": "ask"}, ["get"], id="ask-is-not-off"),
        pytest.param({"s_get*": False, "*": True}, ["put"], id="shorter-is-no-exception"),
        pytest.param({"other_*": False, "bash": False}, ["get", "get_all", "put"], id="others"),
        pytest.param(
            {"s_put": {"x": "deny"}, "s_get": 7}, ["get", "get_all", "put"], id="no-switch"
        ),
        pytest.param({"s_{put}": False}, ["get", "get_all", "put"], id="braces-are-letters"),
        pytest.param({"s_": False}, ["get", "get_all", "put"], id="no-tool"),
        pytest.param({"[s]_*": False}, ["get", "get_all", "put"], id="brackets-are-letters"),
    ],
)
def test_switches_by_server_and_tool(switches: dict[str, object], left: list[str]) -> None:
    rules = switch_rules({"s": "s"}, switches, HERE)

    assert enabled(rules, ["get", "get_all", "put"]) == left
