from __future__ import annotations

import pytest

from discovery_engine.errors import Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.rules.rule_lint import lint_rules
from tests.factories import make_tool
from tests.rows import rows

TOOLS = [
    make_tool("get_issue"),
    make_tool("delete_issue", annotations={"destructiveHint": True}),
    make_tool("get_page", "wiki"),
]
OFF, ON = {"enabled": False}, {"enabled": True}


def codes(*rules: Rule, tools=TOOLS) -> list[tuple[int, str]]:
    found = lint_rules(rules, tools)
    return [(int(one.subject.removeprefix("toolRules.")), one.code) for one in found]


@rows(
    ("rules", "expected"),
    [
        pytest.param([], [], id="no rules"),
        pytest.param([Rule(("nope",))], [(0, "RULE_UNMATCHED")], id="nothing matches"),
        pytest.param([Rule(("get_*", "!get_*"))], [(0, "RULE_UNMATCHED")], id="excludes itself"),
        pytest.param([Rule(("get_*",), **ON), Rule(**OFF)], [], id="an exception before a rule"),
        pytest.param(
            [Rule(**OFF), Rule(("get_*",), **ON)],
            [(1, "RULE_CONTRADICTED")],
            id="too late",
        ),
        pytest.param(
            [Rule(**OFF), Rule(("get_*",), **OFF)],
            [(1, "RULE_SHADOWED")],
            id="needless",
        ),
        pytest.param([Rule(**OFF), Rule(("get_*",), tags=("t",))], [], id="a tag is no decision"),
        pytest.param([Rule(tags=("t",)), Rule(("get_*",), **OFF)], [], id="behind a tag"),
        pytest.param(
            [Rule(("*issue",), **OFF), Rule(servers=("wiki",), **ON), Rule(("get_*",), **OFF)],
            [(2, "RULE_CONTRADICTED")],
            id="two rules together",
        ),
        pytest.param(
            [Rule(("*issue",), **OFF), Rule(("get_*",), **ON)], [], id="a part is left to decide"
        ),
    ],
)
def test_finding(rules: list[Rule], expected: list[tuple[int, str]]) -> None:
    assert codes(*rules) == expected


@rows(
    ("earlier", "later", "is_found"),
    [
        pytest.param(Rule(), Rule(("a",)), True, id="no condition"),
        pytest.param(Rule(("*",)), Rule(("a",)), True, id="a lone star"),
        pytest.param(Rule(("a",)), Rule(("a",)), True, id="the same"),
        pytest.param(Rule(("a", "b")), Rule(("b",)), True, id="more alternatives"),
        pytest.param(Rule(("b",)), Rule(("a", "b")), False, id="fewer alternatives"),
        pytest.param(Rule(("a",)), Rule(), False, id="a condition more"),
        pytest.param(Rule(("!a",)), Rule(("!a", "!b")), True, id="fewer exceptions"),
        pytest.param(Rule(("!a", "!b")), Rule(("!a",)), False, id="more exceptions"),
        pytest.param(Rule(("a",)), Rule(("a",), servers=("s",)), True, id="any server"),
        pytest.param(Rule(("a",), servers=("s",)), Rule(("a",)), False, id="one server"),
        pytest.param(Rule(), Rule(annotations={"x": True}), True, id="any annotations"),
        pytest.param(Rule(annotations={"x": True}), Rule(), False, id="an annotation"),
    ],
)
def test_comparing_the_rules_needs_no_catalog(earlier, later, *, is_found: bool) -> None:
    decided = [
        Rule(rule.patterns, rule.servers, rule.annotations, enabled=False)
        for rule in (earlier, later)
    ]

    assert codes(*decided, tools=[]) == ([(1, "RULE_SHADOWED")] if is_found else [])


@pytest.mark.requirement("RUL-50")
def test_a_list_of_a_client_is_named_with_its_file_and_is_not_to_be_removed() -> None:
    listed = Origin("/home/me/.codex/config.toml", client="Codex")
    allowed = Rule(("!get_issue",), ("github",), enabled=False, origin=listed)

    [shadowed] = lint_rules([Rule(enabled=False), allowed], TOOLS)
    [opposed] = lint_rules([Rule(enabled=True, origin=Origin("d.yaml", 2, 3)), allowed], TOOLS)

    assert shadowed.message.startswith(f"the list of tools of Codex ({listed}) can never decide")
    assert shadowed.hint == "change it in that file of Codex, or leave it"
    assert opposed.hint == "change it in that file of Codex, or rule 1 (d.yaml:2:3)"
