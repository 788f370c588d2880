from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from wcmatch import fnmatch

from discovery_engine.rules.patterns import TimeLimit
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import ToolRules
from discovery_engine.tools.model import Tool
from tests.factories import make_tool

SLOW = "/(a|aa)+$/"
SLOW_NAME = "a" * 50 + "!"
BRIEF = TimeLimit(search=0.002, total=0.02)

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


def test_name_in_a_problem_cannot_touch_the_terminal() -> None:
    judge = ToolRules([Rule((SLOW,))], limit=BRIEF)

    judge.verdicts([make_tool("\x1b[31m" + SLOW_NAME)], Verdict())

    assert str(judge.problems[0]).isprintable()
