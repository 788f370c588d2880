"""The promises of specs/rules.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine import Settings, Tool, load_settings
from discovery_engine.errors import Origin
from discovery_engine.rules.patterns import Pattern, PatternError
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.rule_lint import lint_rules
from discovery_engine.rules.ruleset import ServerRules, ToolRules
from tests.factories import make_tool
from tests.relevance_fleet import FLEET, TOOLS
from tests.rows import rows

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


@pytest.mark.requirement("RUL-1", "RUL-3")
def test_first_decision_counts_and_all_tags_do() -> None:
    repo, ticket = make_tool("github_delete_repo"), make_tool("jira_x", "jira")

    assert judged([DELETES, GITHUB], repo) == Verdict(False, ("gh",), "rule", 0)
    assert judged([GITHUB, DELETES], repo) == Verdict(True, ("gh",), "rule", 0)
    assert judged([DELETES, GITHUB], ticket) == Verdict(False, (), "whitelist")
    assert judged([DELETES], ticket) == Verdict(True)


@pytest.mark.requirement("RUL-5")
def test_tools_of_a_disabled_server_are_disabled() -> None:
    verdict = judged([GITHUB], make_tool("github_get"), Verdict(False, ("own",), "rule", 0))

    assert verdict == Verdict(False, ("own", "gh"), "server")


@pytest.mark.requirement("RUL-10")
@given(positive, tools)
def test_negation_is_complement(pattern: str, tool: Tool) -> None:
    assert matches(f"!{pattern}", tool) is not matches(pattern, tool)


@pytest.mark.requirement("RUL-10")
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
    judge = ToolRules([Rule(**asked, enabled=enabled)])

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
    judge = ServerRules([Rule(**asked, enabled=enabled)])

    assert not judge.verdict(make_tool("x", SLOW_NAME).server, (SLOW_NAME,), True).enabled


@pytest.mark.requirement("RUL-5")
def test_server_rules_see_the_name_and_the_own_tags() -> None:
    github, jira = (make_tool("x", name).server for name in ("github", "jira"))
    rules = [Rule(("git*",), tags=("vcs",)), Rule(has_tags=("prod*", "!eu"), enabled=False)]
    judge = ServerRules(rules)

    assert judge.verdict(github, (), True) == Verdict(True, ("vcs",))
    assert not judge.verdict(jira, ("production",), True).enabled
    assert judge.verdict(jira, ("production", "eu"), True).enabled


@pytest.mark.requirement("RUL-5")
def test_entry_that_disables_its_server_is_final() -> None:
    judge = ServerRules([Rule(enabled=True)])

    assert judge.verdict(make_tool("x").server, (), False) == Verdict(False, (), "server")


@pytest.mark.requirement("RUL-40")
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


@pytest.mark.requirement("RUL-50")
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


@pytest.mark.requirement("RUL-50")
def test_a_rule_that_keeps_off_what_may_come_is_no_finding() -> None:
    rules = [
        Rule(("*get*",), enabled=False),
        Rule(("*destroy*", "*get*"), enabled=False),
        Rule(("*destroy*", "wipe"), enabled=False),
        Rule(annotations={"destructiveHint": True}, enabled=False),
    ]

    assert [finding.subject for finding in lint_rules(rules, TOOLS)] == ["toolRules.2"]


@pytest.mark.requirement("RUL-50")
def test_a_rule_that_earlier_ones_keep_from_disabling_anything_is_a_finding() -> None:
    rules = [Rule(("github_*", "*_code"), enabled=True), Rule(("*git*",), enabled=False)]

    [finding] = lint_rules(rules, [tool for tool in TOOLS if tool.name.startswith("github_")])

    assert (finding.subject, finding.code) == ("toolRules.1", "RULE_CONTRADICTED")


EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NAMES = ["glob", "production", "regex", "server-specific", "tags", "whitelist", "zero-config"]

DISABLED = {
    "zero-config": "",
    "glob": "github_delete_repo jira_create_ticket jira_delete_ticket jira_update_ticket "
    "delete_file write_file docker_remove_container",
    "regex": "github_delete_repo jira_delete_ticket delete_file docker_remove_container",
    "server-specific": "delete_file write_file docker_list_containers docker_remove_container "
    "docker_run_container docker_stop_container",
    "whitelist": "github_create_pull_request github_delete_repo github_search_code "
    "jira_create_ticket jira_delete_ticket jira_update_ticket delete_file write_file "
    "docker_remove_container docker_run_container docker_stop_container",
    "tags": "docker_run_container",
    "production": "github_delete_repo jira_delete_ticket jira_update_ticket delete_file write_file "
    "docker_remove_container docker_run_container docker_stop_container",
}


def loaded(name: str) -> Settings:
    path = EXAMPLES / name / "discovery.yaml"
    return load_settings(str(path), environ={}, cwd=str(path.parent), home=str(path.parent))


def verdicts(settings: Settings) -> dict[str, Verdict]:
    """The verdict on every tool of the fleet, by its name."""
    own_tags = {server.name: server.tags for server in settings.servers}
    servers, judge = ServerRules(settings.server_rules), ToolRules(settings.tool_rules)
    found = {}
    for tools in FLEET.values():
        name = tools[0].server
        server = servers.verdict(name, own_tags.get(name, ()), True)
        found |= zip((tool.name for tool in tools), judge.verdicts(tools, server), strict=True)
    return found


@rows("name", NAMES)
def test_example_is_valid_and_none_of_its_rules_is_idle(name: str) -> None:
    settings = loaded(name)

    assert [server.problem for server in settings.servers if server.problem] == []
    assert settings.warnings == ()
    assert lint_rules(settings.tool_rules, TOOLS) == ()


@pytest.mark.requirement("RUL-1", "RUL-3")
@rows("name", NAMES)
def test_example_disables_what_it_says(name: str) -> None:
    disabled = {tool for tool, verdict in verdicts(loaded(name)).items() if not verdict.enabled}

    assert disabled == set(DISABLED[name].split())
