from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.agent.budget import UNITS, _price, estimated_tokens
from tests.rows import rows

BLANKS = st.text(st.sampled_from(" \n\t\r\x1f\xa0\u3000"), max_size=3)
TEXTS = st.lists(st.one_of(st.text(max_size=80), BLANKS, st.just("state?: string"))).map("".join)


@rows(
    ("text", "least", "most"),
    [
        # As the encodings o200k_base and cl100k_base count them, in either order.
        pytest.param("Create a new issue in a GitHub repository.", 9, 10, id="prose"),
        pytest.param("github:create_pull_request(owner, repo, title)", 10, 10, id="line"),
        pytest.param("listWorkflowRunsForRepository", 5, 5, id="camel case"),
        pytest.param('{"type":"object","properties":{"a":{"type":"number"}}}', 14, 14, id="schema"),
        pytest.param("2026-11-05T12:30:00Z", 13, 13, id="timestamp"),
        pytest.param("查询指定城市的实时天气信息", 7, 12, id="Chinese"),
        pytest.param("Создаёт новую задачу в репозитории", 10, 17, id="Russian"),
    ],
)
def test_estimate_is_near_a_tokenizers_count(text: str, least: int, most: int) -> None:
    assert least <= estimated_tokens(text) <= 1.25 * most


@given(st.text(), st.text())
def test_lines_cost_together_what_they_cost_apart(first: str, second: str) -> None:
    apart = estimated_tokens(first) + estimated_tokens(second)

    assert abs(estimated_tokens(f"{first}\n{second}") - apart) <= 2 + first.count("\n") + len(
        first
    ) - len(first.rstrip())


@given(TEXTS)
def test_words_priced_one_by_one_cost_what_the_text_costs(text: str) -> None:
    exactly = _price(text)  # without the words that are cached

    assert (estimated_tokens(text) - 1) * UNITS < exactly <= estimated_tokens(text) * UNITS


@given(st.text("aZé9_(界…! ", max_size=12), st.text("aZé9_(界…! ", max_size=12))
def test_a_name_and_its_arguments_priced_apart_cost_what_they_cost_together(
    name: str, arguments: str
) -> None:
    text = f"{name}({arguments}"

    assert estimated_tokens(text) == -(-_price(text) // UNITS)
