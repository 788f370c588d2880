from __future__ import annotations

import json

import pytest

from discovery_engine.agent.token_estimate import estimated_tokens
from tests.rows import rows
from tests.unit.cli.backends import run, usual_view

pytestmark = pytest.mark.requirement("BUD-10")


@rows(
    "words",
    [
        pytest.param(["search", "create", "issue"], id="search"),
        pytest.param(["tools", "github", "--all"], id="tools"),
    ],
)
def test_answer_is_an_agents_within_the_tokens_given(words: list[str]) -> None:
    done = run(*words, "--max-tokens", "50", recalled=usual_view())

    assert "create_issue(" in done.stdout
    assert estimated_tokens(done.stdout) <= 51  # with the line end


def test_answer_stands_beside_the_results_in_json() -> None:
    words = ("search", "create", "issue", "--json")

    usual = json.loads(run(*words, recalled=usual_view()).stdout)
    asked = json.loads(run(*words, "--max-tokens", "60", recalled=usual_view()).stdout)

    assert asked.pop("text").startswith("Match: sure.\ngithub:create_issue(")
    assert asked.pop("tokens") <= 60
    assert asked == usual
