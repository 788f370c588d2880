from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from wcmatch import fnmatch

from discovery_engine.diagnostics import Origin
from discovery_engine.rules import Rule, ServerRules, ToolRules, Verdict
from discovery_engine.rules.regexes import TimeLimit
from discovery_engine.tools.model import ServerName, Tool
from tests.factories import (
    make_problem,
    make_tool,
)
from tests.rows import rows

SLOW = "/(a|aa)+$/"
SLOW_NAME = "a" * 50 + "!"
BRIEF = TimeLimit(search=0.002, total=0.02)
GITHUB = ServerName("github")

GLOBS = ["get_*", "*issue*", "*", "{get,set}_?*", "[!g]*", "github:*", "*:get_*", "x"]
REGEXES = ["/^get/", "/ISSUE/i", "/issue$/", "/^git.*:set/", "/(?:get|set)_/", "/[^_]$/"]
patterns = st.sampled_from(GLOBS + REGEXES)
rules = st.builds(
    Rule,
    patterns=st.lists(patterns | patterns.map("!{}".format), max_size=3).map(tuple),
    servers=st.lists(st.sampled_from(["github", "!github", "j*", "/^git/"]), max_size=2).map(tuple),
    annotations=st.sampled_from([{}, {}, {"readOnlyHint": True}, {"title": "Get"}]),
    enabled=st.sampled_from([None, None, True, False]),
    tags=st.lists(st.sampled_from(["a", "b", "c"]), max_size=2).map(tuple),
)
rule_lists = st.lists(rules, max_size=5)
names = st.sampled_from(
    ["get_issue", "GET_ISSUE", "set_issue", "delete", "g\u200bet_issue", "\uff47et_x", "Get_\u00df"]
)
hints = st.sampled_from([{}, {"readOnlyHint": True}, {"readOnlyHint": 1}, {"title": "Get"}])
batches = st.sampled_from(["github", "jira"]).flatmap(
    lambda server: st.lists(
        st.builds(lambda name, hint: make_tool(name, server, annotations=hint), names, hints),
        max_size=5,
    )
)
servers = st.builds(Verdict, st.booleans(), st.sampled_from([(), ("own",), ("b",)]))


class Reference:
    """The language of rules, one tool and one pattern at a time, as plainly as it can be put."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules

    def verdict(self, tool: Tool, server: Verdict) -> Verdict:
        matching = [index for index, rule in enumerate(self.rules) if self.applies(rule, tool)]
        tags = list(server.tags)
        for index in matching:
            tags += [tag for tag in self.rules[index].tags if tag not in tags]
        if not server.enabled:
            return Verdict(False, tuple(dict.fromkeys(tags)), "server")
        for index in matching:
            enabled = self.rules[index].enabled
            if enabled is not None:
                return Verdict(enabled, tuple(dict.fromkeys(tags)), "rule", index)
        if any(rule.enabled for rule in self.rules):
            return Verdict(False, tuple(dict.fromkeys(tags)), "whitelist")
        return Verdict(True, tuple(dict.fromkeys(tags)))

    def applies(self, rule: Rule, tool: Tool) -> bool:
        def by_name(pattern: str) -> bool:
            is_qualified = ":" in pattern.replace("(?:", "(")
            return matches(pattern, str(tool.key) if is_qualified else tool.name)

        return (
            applies(rule.patterns, by_name)
            and applies(rule.servers, lambda pattern: matches(pattern, tool.server))
            and all(
                tool.annotations.get(name) is value or tool.annotations.get(name) == value == "Get"
                for name, value in rule.annotations.items()
            )
        )


def applies(patterns: Sequence[str], test) -> bool:
    negated = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    positive = [pattern for pattern in patterns if not pattern.startswith("!")]
    return not any(map(test, negated)) and (not positive or any(map(test, positive)))


def matches(pattern: str, name: str) -> bool:
    plain = unicodedata.normalize("NFKC", name.replace("\u200b", ""))
    if not pattern.startswith("/"):
        flags = fnmatch.IGNORECASE | fnmatch.BRACE
        return any(
            fnmatch.fnmatch(spelling, pattern, flags=flags)
            for spelling in (name, plain, plain.casefold())
        )
    body, flag = pattern[1:].rsplit("/", 1)
    spellings = [name, plain, plain.casefold()] if flag else [name, plain]
    return any(re.search(body, spelling, re.IGNORECASE if flag else 0) for spelling in spellings)


@given(rule_lists, batches, servers)
def test_a_batch_gets_the_verdicts_of_the_reference(rules, tools, server) -> None:
    verdicts = ToolRules(rules).verdicts(tools, server)

    assert verdicts == [Reference(rules).verdict(tool, server) for tool in tools]


@given(rule_lists, batches, servers)
def test_explanation_and_verdict_agree(rules, tools, server) -> None:
    judge = ToolRules(rules)

    for tool, verdict in zip(tools, judge.verdicts(tools, server), strict=True):
        explanation = judge.explain(tool, server)

        given = [tag for step in explanation.steps for tag in step.tags]
        assert explanation.verdict == verdict
        assert (explanation.deciding.index if explanation.deciding else None) == verdict.rule
        assert [*server.tags, *given] == list(verdict.tags)


def test_nothing_to_judge_is_no_trouble() -> None:
    assert ToolRules([Rule(("github:*",), servers=("x",))]).verdicts([], Verdict()) == []


def test_slow_pattern_is_reported_once_with_its_place() -> None:
    origin = Origin("discovery.yaml", 3, 5)
    judge = ToolRules([Rule(), Rule((SLOW,), enabled=False, origin=origin)], limit=BRIEF)

    for _ in range(2):
        judge.verdicts([make_tool(SLOW_NAME), make_tool("b")], Verdict())

    assert judge.problems == (
        make_problem(
            origin,
            "toolRules.1",
            f"pattern {SLOW!r} was too slow on {SLOW_NAME!r} and cut off: "
            "taken as a match, since the rule disables",
            "write it as a glob, or without a repetition inside a repetition",
            code="RULE_PATTERN_SLOW",
        ),
    )


@rows("enabled", [True, None])
def test_slow_pattern_that_disables_nothing_is_taken_as_no_match(*, enabled: bool | None) -> None:
    rules = [Rule((SLOW,), enabled=enabled), Rule(("x", "/(b|bb)+$/"), tags=("t",))]
    judge = ToolRules(rules, limit=BRIEF)

    judge.verdicts([make_tool(SLOW_NAME), make_tool("b" * 50 + "!")], Verdict())

    assert [(problem.subject, problem.message[-24:]) for problem in judge.problems] == [
        ("toolRules.0", "cut off: taken as no match"[-24:]),
        ("toolRules.1", "cut off: taken as no match"[-24:]),
    ]


def test_server_that_no_rule_disables_is_explained_as_a_server() -> None:
    judge = ServerRules([Rule(("git*",), enabled=True, origin=Origin("d.yaml", 2, 3))])

    explained = judge.explain(GITHUB, (), True)

    assert explained.sentence == "rule 1 (d.yaml:2:3) enables servers matching 'git*'"
    assert [step.rule for step in explained.steps] == [
        Rule(("git*",), enabled=True, origin=Origin("d.yaml", 2, 3))
    ]


@rows(
    ("enabled", "verdict"),
    [
        pytest.param(False, Verdict(False, ("t",), "rule", 0), id="a rule that disables matches"),
        pytest.param(True, Verdict(False, (), "whitelist"), id="a rule that enables does not"),
        pytest.param(None, Verdict(True, ()), id="a rule that tags does not"),
    ],
)
@rows("rule", [Rule((SLOW,)), Rule(servers=(SLOW,)), Rule(("!" + SLOW,))])
def test_in_doubt_a_tool_stays_disabled(rule, enabled, verdict) -> None:
    judge = ToolRules([replace(rule, enabled=enabled, tags=("t",))], limit=BRIEF)
    tool = make_tool(SLOW_NAME, SLOW_NAME)

    assert judge.verdicts([tool], Verdict()) == [verdict]
    assert judge.explain(tool, Verdict()).steps[0].too_slow


def test_name_in_a_problem_cannot_touch_the_terminal() -> None:
    judge = ToolRules([Rule((SLOW,))], limit=BRIEF)

    judge.verdicts([make_tool("\x1b[31m" + SLOW_NAME)], Verdict())

    assert str(judge.problems[0]).isprintable()


@rows(
    ("rule", "applies"),
    [
        pytest.param(Rule(), True, id="no condition"),
        pytest.param(Rule(("git*",)), True, id="its name"),
        pytest.param(Rule(("git:*",)), False, id="a colon is only a character"),
        pytest.param(Rule(has_tags=("prod*",)), True, id="one of its tags"),
        pytest.param(Rule(has_tags=("!prod*",)), False, id="not this tag"),
        pytest.param(Rule(has_tags=("!test",)), True, id="without the tag"),
        pytest.param(Rule(has_tags=("prod", "!eu")), False, id="one tag but not the other"),
        pytest.param(Rule(("jira",), has_tags=("prod",)), False, id="both conditions must hold"),
    ],
)
def test_server_rule_applies(rule: Rule, *, applies: bool) -> None:
    judge = ServerRules([replace(rule, enabled=False)])

    verdict = judge.verdict(GITHUB, ("prod", "eu"), True)

    assert verdict.enabled is not applies


def test_server_without_tags_has_none_that_match() -> None:
    judge = ServerRules(
        [Rule(has_tags=("*",), tags=("tagged",)), Rule(has_tags=("!*",), tags=("bare",))]
    )

    assert judge.verdict(GITHUB, (), True).tags == ("bare",)


def test_slow_server_rule_is_reported_and_counts_as_disabling() -> None:
    judge = ServerRules([Rule(has_tags=(SLOW,), enabled=False)], limit=BRIEF)

    assert judge.verdict(GITHUB, (SLOW_NAME,), True) == Verdict(False, (SLOW_NAME,), "rule", 0)
    assert [problem.subject for problem in judge.problems] == ["serverRules.0"]


def test_own_entry_of_a_server_is_final() -> None:
    judge = ServerRules([Rule(("*",), enabled=True, tags=("t",))])

    assert judge.verdict(GITHUB, ("own",), False) == Verdict(False, ("own", "t"), "server")
    assert judge.explain(GITHUB, (), False).sentence == "its entry has enabled: false"
