from __future__ import annotations

import pytest

from discovery_engine.diagnostics import Origin
from discovery_engine.rules import Rule, Verdict, describe
from discovery_engine.rules.rule_explanation import decider, public_decider
from tests.rows import rows

ORIGIN = Origin("discovery.yaml", 12, 5)


@rows(
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


@rows(
    ("verdict", "subject", "sentence"),
    [
        pytest.param(Verdict(), "tool", "no rule disables it", id="default"),
        pytest.param(Verdict(False, (), "server"), "tool", "its server is disabled", id="server"),
        pytest.param(
            Verdict(False, (), "server"), "server", "its entry has enabled: false", id="own entry"
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


HELD_BACK = [
    pytest.param("off", "the configuration has `enabled: false`", id="off"),
    pytest.param("changed", "a change that waits for review", id="changed"),
    pytest.param("pending", "quarantine until it is reviewed", id="pending"),
    pytest.param("suspicious", "a suspicion that waits for review", id="suspicious"),
    pytest.param("untrusted", "the lack of an approval", id="untrusted"),
]


@rows(("reason", "sentence"), HELD_BACK)
def test_what_no_rule_settled_is_said_alike_to_everybody(reason, sentence) -> None:
    verdict = Verdict(False, (), reason)

    assert describe(verdict, ()) == decider(verdict, ()) == public_decider(verdict) == sentence


@rows("subject", ["tool", "server"])
def test_what_settled_it_is_named_for_the_owner_with_its_place_and_for_others_without(
    subject,
) -> None:
    rules = [Rule(), Rule(("secret_*",), enabled=True, origin=ORIGIN)]
    decided, whitelisted = Verdict(False, (), "rule", 1), Verdict(False, (), "whitelist")
    disabled = Verdict(False, (), "server")

    assert decider(decided, rules, subject=subject) == "rule 2 (discovery.yaml:12:5)"
    assert public_decider(decided, subject=subject) == "a rule of the owner"
    assert decider(whitelisted, rules, subject=subject) == (
        "no rule enables it, and rule 2 (discovery.yaml:12:5) makes them a whitelist"
    )
    assert public_decider(whitelisted, subject=subject) == "no rule of the owner enables it"
    assert decider(disabled, rules, subject=subject) == public_decider(disabled, subject=subject)
    assert public_decider(disabled, subject=subject) == describe(disabled, (), subject=subject)
