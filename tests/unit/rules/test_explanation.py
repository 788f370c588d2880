from __future__ import annotations

import pytest

from discovery_engine.errors import Origin
from discovery_engine.rules import Rule, Verdict, describe

ORIGIN = Origin("discovery.yaml", 12, 5)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        pytest.param(Rule(("*delete*",)), "disables tools matching '*delete*'", id="a pattern"),
        pytest.param(Rule(("a", "!b")), "disables tools matching 'a', '!b'", id="two patterns"),
        pytest.param(Rule(), "disables all tools", id="no condition"),
        pytest.param(
            Rule(("a",), servers=("git*",)),
            "disables tools matching 'a' of servers matching 'git*'",
            id="a server",
        ),
        pytest.param(
            Rule(annotations={"destructiveHint": True, "title": "x"}),
            "disables tools annotated destructiveHint: true, title: 'x'",
            id="annotations",
        ),
    ],
)
def test_sentence_names_the_deciding_rule_and_what_it_asks(rule: Rule, sentence: str) -> None:
    rules = [Rule(), Rule(rule.patterns, rule.servers, rule.annotations, origin=ORIGIN)]

    described = describe(Verdict(False, (), "rule", 1), rules)

    assert described == f"rule 2 (discovery.yaml:12:5) {sentence}"


@pytest.mark.parametrize(
    ("verdict", "subject", "sentence"),
    [
        pytest.param(Verdict(), "tool", "no rule disables it", id="default"),
        pytest.param(Verdict(False, (), "server"), "tool", "its server is disabled", id="server"),
        pytest.param(
            Verdict(False, (), "server"), "server", "its entry says enabled: false", id="own entry"
        ),
        pytest.param(
            Verdict(False, (), "whitelist"),
            "tool",
            "no rule enables it, and rule 2 makes them a whitelist",
            id="whitelist",
        ),
        pytest.param(
            Verdict(True, (), "rule", 1), "server", "rule 2 enables servers tagged 'x'", id="tags"
        ),
    ],
)
def test_sentence_without_an_origin(verdict, subject, sentence) -> None:
    rules = [Rule(enabled=False), Rule(has_tags=("x",), enabled=True)]

    assert describe(verdict, rules, subject=subject) == sentence
