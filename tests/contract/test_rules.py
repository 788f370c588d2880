"""What specs/rules.md promises, through the public face of the rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.diagnostics import Origin
from discovery_engine.rules import (
    Pattern,
    PatternError,
    Rule,
    ServerRules,
    ToolRules,
    Verdict,
    lint_rules,
)
from discovery_engine.rules.regexes import TimeLimit
from discovery_engine.tools.model import AppliedOverride, ServerName, Tool, ToolName
from tests.contract.fleet import FLEET, TOOLS
from tests.factories import make_tool
from tests.rows import rows

BRIEF = TimeLimit(search=0.002, total=0.02)
ENABLED = Verdict()
SLOW = "/(a|aa)+$/"
SLOW_NAME = "a" * 50 + "!"
DELETES = Rule(("*delete*",), enabled=False)
GITHUB = Rule(("github_*",), enabled=True, tags=("gh",))

positive = st.sampled_from(
    ["*delete*", "*_issue*", "github:*", "{jira,docker}_*", "/^(list|read)_/", "/FILE/i", "*[!s]"]
)
patterns = st.lists(positive | positive.map("!{}".format), max_size=4).map(tuple)
rules = st.builds(
    Rule,
    patterns=patterns,
    enabled=st.sampled_from([None, True, False]),
    tags=st.lists(st.sampled_from(["a", "b", "c"]), max_size=2).map(tuple),
)
rule_lists = st.lists(rules, max_size=5)
tools = st.sampled_from(TOOLS)


def judged(rules: list[Rule], tool: Tool, server: Verdict = ENABLED) -> Verdict:
    [verdict] = ToolRules(rules).verdicts([tool], server)
    return verdict


def matches(pattern: str | tuple[str, ...], tool: Tool) -> bool:
    texts = (pattern,) if isinstance(pattern, str) else pattern
    return judged([Rule(texts, tags=("yes",))], tool).tags == ("yes",)


@pytest.mark.requirement("RUL-1", "RUL-2", "RUL-3")
def test_first_decision_counts_and_all_tags_do() -> None:
    repo, ticket = make_tool("github_delete_repo"), make_tool("jira_x", "jira")

    assert judged([DELETES, GITHUB], repo) == Verdict(False, ("gh",), "rule", 0)
    assert judged([GITHUB, DELETES], repo) == Verdict(True, ("gh",), "rule", 0)
    assert judged([DELETES, GITHUB], ticket) == Verdict(False, (), "whitelist")
    assert judged([DELETES], ticket) == Verdict(True)


@pytest.mark.requirement("RUL-2")
@given(rule_lists, tools, st.lists(st.sampled_from(["a", "x"]), unique=True).map(tuple))
def test_tags_are_the_union_in_order(rules: list[Rule], tool: Tool, own: tuple[str, ...]) -> None:
    matching = [rule for rule in rules if matches(rule.patterns, tool)]

    union = dict.fromkeys([*own, *(tag for rule in matching for tag in rule.tags)])
    assert judged(rules, tool, Verdict(tags=own)).tags == tuple(union)


@pytest.mark.requirement("RUL-3")
@given(rule_lists, tools)
def test_undecided_tools_are_disabled_by_a_whitelist_only(rules: list[Rule], tool: Tool) -> None:
    undecided = [rule for rule in rules if not matches(rule.patterns, tool)]

    is_whitelist = any(rule.enabled for rule in undecided)
    assert judged(undecided, tool).enabled is not is_whitelist


@pytest.mark.requirement("RUL-1", "RUL-4")
@given(rule_lists, rules, tools)
def test_rule_at_the_end_changes_no_decision(rules: list[Rule], last: Rule, tool: Tool) -> None:
    before, after = judged(rules, tool), judged([*rules, last], tool)

    if before.reason == "rule":
        assert replace(after, tags=before.tags) == before
    elif not matches(last.patterns, tool):
        is_whitelist = any(rule.enabled for rule in [*rules, last])
        assert after.enabled is not is_whitelist


@pytest.mark.requirement("RUL-5")
def test_tools_of_a_disabled_server_are_disabled() -> None:
    verdict = judged([GITHUB], make_tool("github_get"), Verdict(False, ("own",), "rule", 0))

    assert verdict == Verdict(False, ("own", "gh"), "server")


@pytest.mark.requirement("RUL-10")
@given(patterns, tools, st.randoms(use_true_random=False))
def test_order_of_patterns_is_irrelevant(patterns: tuple[str, ...], tool: Tool, chance) -> None:
    shuffled = tuple(chance.sample(patterns, len(patterns)))

    assert matches(shuffled, tool) == matches(patterns, tool)


@pytest.mark.requirement("RUL-10")
@rows(
    ("patterns", "expected"),
    [
        pytest.param((), True, id="an empty list matches everything"),
        pytest.param(("!*issue",), False, id="all but"),
        pytest.param(("!*page",), True, id="all but another"),
        pytest.param(("get_*", "!*issue"), False, id="one, but excluded"),
        pytest.param(("get_*", "set_*"), True, id="one of two"),
        pytest.param(("set_*", "!*page"), False, id="neither"),
    ],
)
def test_list_of_patterns(patterns: tuple[str, ...], *, expected: bool) -> None:
    assert matches(patterns, make_tool("get_issue")) is expected


@pytest.mark.requirement("RUL-11")
def test_globs_ignore_case_and_expressions_mind_it() -> None:
    tool = make_tool("getIssue")

    assert matches("GETissue", tool)
    assert matches("/getIssue/", tool)
    assert not matches("/getissue/", tool)
    assert matches("/getissue/i", tool)


@pytest.mark.requirement("RUL-12")
@given(positive, tools)
def test_negation_is_complement(pattern: str, tool: Tool) -> None:
    assert matches(f"!{pattern}", tool) is not matches(pattern, tool)


@pytest.mark.requirement("RUL-13")
@rows(
    ("pattern", "expected"),
    [
        pytest.param("github:get_*", True, id="a glob"),
        pytest.param("jira:get_*", False, id="a glob for another server"),
        pytest.param("/^github:get/", True, id="an expression"),
        pytest.param("/^(?:get|list)_/", True, id="a group is syntax"),
        pytest.param("/^(?i:GET)_/", True, id="a group with flags is syntax"),
        pytest.param("/^[[:alpha:]]+_issue/", True, id="a class is syntax"),
    ],
)
def test_colon_reads_server_and_tool(pattern: str, *, expected: bool) -> None:
    assert matches(pattern, make_tool("get_issue", "github")) is expected


@pytest.mark.requirement("RUL-14")
def test_server_restricts_the_whole_rule() -> None:
    rule = Rule(("*_issue",), servers=("git*", "!gitlab"), tags=("t",))

    assert judged([rule], make_tool("get_issue", "github")).tags == ("t",)
    assert judged([rule], make_tool("get_issue", "gitlab")).tags == ()
    assert judged([rule], make_tool("get_page", "github")).tags == ()


@pytest.mark.requirement("RUL-15")
@rows(
    ("stated", "expected"),
    [
        pytest.param({"destructiveHint": True}, True, id="the same value"),
        pytest.param({"destructiveHint": False}, False, id="another value"),
        pytest.param({"destructiveHint": 1}, False, id="another type"),
        pytest.param({"destructiveHint": "true"}, False, id="text"),
        pytest.param({}, False, id="nothing, though the protocol's default is true"),
        pytest.param("destructive", False, id="no annotations at all"),
    ],
)
def test_annotations_match_what_is_stated(stated: object, *, expected: bool) -> None:
    rule = Rule(annotations={"destructiveHint": True}, enabled=False)

    assert judged([rule], make_tool(annotations=stated)).enabled is not expected


@pytest.mark.requirement("RUL-16")
@rows("text", ["", "!", "x" * 1001, "/(/", "/x", "/x/g", "{1..9999}", "/(a{999}){999}/"])
def test_unusable_pattern_is_refused_with_its_text_and_the_reason(text: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern.parse(text)

    assert caught.value.text == text
    assert caught.value.reason


@pytest.mark.requirement("RUL-20")
@rows(
    "name",
    [
        pytest.param("\uff44\uff45lete_repo", id="full-width letters"),
        pytest.param("de\u200blete_repo", id="a zero-width space"),
        pytest.param("DE\u00adLETE_REPO", id="a soft hyphen, in capitals"),
        pytest.param("\U0001d41delete_repo", id="a mathematical letter"),
    ],
)
@rows(
    "rules",
    [
        pytest.param([DELETES], id="a rule that disables"),
        pytest.param([Rule(("/delete/i",), enabled=False)], id="an expression that disables"),
        pytest.param([Rule(("!*delete*",), enabled=True)], id="a rule that enables all but"),
        pytest.param([Rule(("github:delete_*",), enabled=False)], id="with its server"),
    ],
)
def test_disguise_slips_past_nothing(rules: list[Rule], name: str) -> None:
    assert not judged(rules, make_tool(name)).enabled


@pytest.mark.requirement("RUL-20")
def test_look_alike_of_another_script_is_another_letter() -> None:
    assert judged([DELETES], make_tool("d\u0435lete_repo")).enabled


@pytest.mark.requirement("RUL-21", "RUL-22")
@pytest.mark.timeout(20)
@rows("enabled", [True, False])
def test_slow_expression_is_cut_off_reported_and_enables_nothing(*, enabled: bool) -> None:
    origin = Origin("discovery.yaml", 7, 5)
    judge = ToolRules([Rule((SLOW,), enabled=enabled, origin=origin)], limit=BRIEF)

    [verdict] = judge.verdicts([make_tool(SLOW_NAME)], Verdict())

    assert not verdict.enabled
    assert [problem.origin for problem in judge.problems] == [origin]


@pytest.mark.requirement("RUL-22")
@pytest.mark.timeout(20)
@rows("enabled", [True, False])
@rows(
    "asked",
    [
        pytest.param({"patterns": (f"!{SLOW}",)}, id="a slow exception"),
        pytest.param({"patterns": ("*", f"!{SLOW}")}, id="a slow exception to all"),
        pytest.param({"servers": (SLOW,)}, id="a slow server"),
        pytest.param({"servers": (f"!{SLOW}",)}, id="a slow exception among servers"),
        pytest.param({"patterns": ("*",), "servers": (SLOW,)}, id="all of a slow server"),
    ],
)
def test_in_doubt_a_tool_stays_disabled(
    asked: dict[str, tuple[str, ...]], *, enabled: bool
) -> None:
    tool = make_tool(SLOW_NAME, SLOW_NAME)
    judge = ToolRules([Rule(**asked, enabled=enabled)], limit=BRIEF)

    [verdict] = judge.verdicts([tool], Verdict())

    assert not verdict.enabled
    assert judge.problems


@pytest.mark.requirement("RUL-22")
@pytest.mark.timeout(20)
@rows("asked", [{"patterns": (f"!{SLOW}",)}, {"has_tags": (f"!{SLOW}",)}])
@rows("enabled", [True, False])
def test_in_doubt_a_server_stays_disabled(
    asked: dict[str, tuple[str, ...]], *, enabled: bool
) -> None:
    judge = ServerRules([Rule(**asked, enabled=enabled)], limit=BRIEF)

    assert not judge.verdict(ServerName(SLOW_NAME), (SLOW_NAME,), True).enabled


def renamed_to(name: str) -> Tool:
    """A tool that its server calls `given`, and its owner so."""
    return replace(make_tool("given"), overridden=AppliedOverride(name=ToolName(name), by=(0,)))


@pytest.mark.requirement("OVR-20")
@rows(
    ("rule", "matches"),
    [
        pytest.param(Rule(("given",), enabled=True), True, id="enables by the server's name"),
        pytest.param(Rule(("chosen",), enabled=True), False, id="enables not by the owner's"),
        pytest.param(Rule(("!given",), enabled=True), False, id="excepts by the server's name"),
        pytest.param(Rule(("!chosen",), enabled=True), True, id="excepts not by the owner's"),
        pytest.param(Rule(("given",), enabled=False), True, id="disables by the server's name"),
        pytest.param(Rule(("chosen",), enabled=False), True, id="disables by the owner's"),
        pytest.param(Rule(("github:chosen",), enabled=False), True, id="disables with the server"),
        pytest.param(Rule(("given",), tags=("t",)), True, id="tags by the server's name"),
        pytest.param(Rule(("chosen",), tags=("t",)), True, id="tags by the owner's"),
        pytest.param(Rule(("other",), tags=("t",)), False, id="tags by no other"),
    ],
)
def test_of_a_renamed_tool_what_enables_reads_the_servers_name_and_all_else_both(
    rule: Rule, *, matches: bool
) -> None:
    renamed = replace(
        make_tool("given"), overridden=AppliedOverride(name=ToolName("chosen"), by=(0,))
    )
    rules, tools = ToolRules([rule]), [make_tool("plain"), renamed]

    [found] = rules.matches(tools)
    explained = rules.explain(renamed, ENABLED)

    assert (1 in found) is matches
    assert explained.steps[0].matched is matches
    assert explained.verdict == rules.verdicts(tools, ENABLED)[1]


@pytest.mark.requirement("OVR-20")
@pytest.mark.timeout(20)
def test_a_slow_pattern_on_the_owners_name_leaves_a_tool_disabled() -> None:
    renamed = replace(
        make_tool("given"), overridden=AppliedOverride(name=ToolName(SLOW_NAME), by=(0,))
    )
    judge = ToolRules([Rule((SLOW,), enabled=False)], limit=BRIEF)

    assert not judge.verdicts([renamed], ENABLED)[0].enabled
    assert SLOW_NAME in judge.problems[0].message


@pytest.mark.requirement("RUL-30")
def test_server_rules_see_the_name_and_the_own_tags() -> None:
    rules = [Rule(("git*",), tags=("vcs",)), Rule(has_tags=("prod*", "!eu"), enabled=False)]
    judge = ServerRules(rules)

    assert judge.verdict(ServerName("github"), (), True) == Verdict(True, ("vcs",))
    assert not judge.verdict(ServerName("jira"), ("production",), True).enabled
    assert judge.verdict(ServerName("jira"), ("production", "eu"), True).enabled


@pytest.mark.requirement("RUL-31")
@given(st.lists(rules, max_size=4), st.sampled_from(["github_get", "jira_issue", "delete"]))
def test_servers_are_judged_as_tools_are(rules: list[Rule], name: str) -> None:
    unqualified = [rule for rule in rules if ":" not in "".join(rule.patterns)]

    verdict = ServerRules(unqualified).verdict(ServerName(name), ("own",), True)

    assert verdict == judged(unqualified, make_tool(name), Verdict(tags=("own",)))


@pytest.mark.requirement("RUL-31")
def test_entry_that_disables_its_server_is_final() -> None:
    judge = ServerRules([Rule(enabled=True)])

    assert judge.verdict(ServerName("github"), (), False) == Verdict(False, (), "server")


@pytest.mark.requirement("RUL-40", "RUL-41")
def test_explanation_goes_through_every_rule() -> None:
    rules = [
        Rule(("jira_*",), tags=("a",), origin=Origin("discovery.yaml", 8, 5)),
        Rule(tags=("own", "b"), origin=Origin("discovery.yaml", 10, 5)),
        replace(DELETES, tags=("b", "c"), origin=Origin("discovery.yaml", 12, 5)),
        Rule(enabled=True, origin=Origin("discovery.yaml", 15, 5)),
    ]

    explanation = ToolRules(rules).explain(make_tool("delete_repo"), Verdict(tags=("own",)))

    steps = [(step.matched, step.decided, step.tags) for step in explanation.steps]
    assert steps == [
        (False, False, ()),
        (True, False, ("b",)),
        (True, True, ("c",)),
        (True, False, ()),
    ]
    assert explanation.deciding is explanation.steps[2]
    assert explanation.verdict == Verdict(False, ("own", "b", "c"), "rule", 2)
    assert explanation.sentence == (
        "rule 3 (discovery.yaml:12:5) disables tools matching '*delete*'"
    )


@pytest.mark.requirement("RUL-50", "RUL-51", "RUL-52")
def test_rules_without_effect_are_found() -> None:
    rules = [
        Rule(("github_get_*",), enabled=True),
        Rule(servers=("github",), enabled=False),
        Rule(("github_*",), servers=("github",), enabled=False),
        Rule(("*_code",), enabled=True),
        Rule(("nothing_*",), tags=("t",)),
    ]

    found = {finding.subject: finding.code for finding in lint_rules(rules, TOOLS)}

    assert found == {
        "toolRules.2": "RULE_SHADOWED",
        "toolRules.3": "RULE_CONTRADICTED",
        "toolRules.4": "RULE_UNMATCHED",
    }


@pytest.mark.thorough
@pytest.mark.requirement("RUL-60")
@given(rule_lists)
def test_many_at_once_are_judged_as_one_by_one(rules: list[Rule]) -> None:
    for fleet in FLEET.values():
        together = ToolRules(rules).verdicts(fleet, Verdict())

        assert together == [judged(rules, tool) for tool in fleet]
