from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import declarable, merged
from discovery_engine.upstream.question import Question
from tests.rows import rows

NAMES = st.sampled_from(["elicitation", "sampling", "roots", "experimental", "made up"])
PARTS = st.dictionaries(
    st.sampled_from(["form", "url", "tools", "context", "listChanged", "more"]),
    st.sampled_from([{}, {"x": 1}, True, False, None]),
)
CAPABILITIES = st.dictionaries(NAMES, PARTS).map(declarable)


@pytest.mark.requirement("QST-1")
@given(CAPABILITIES, CAPABILITIES)
def test_clients_that_take_turns_reopen_no_session_twice(one: Any, other: Any) -> None:
    both = merged(merged({}, one), other)

    assert merged(both, one) == merged(both, other) == both


@pytest.mark.requirement("QST-1")
@given(CAPABILITIES, CAPABILITIES)
def test_what_both_can_be_asked_is_what_either_can(one: Any, other: Any) -> None:
    questions = [
        Question("elicitation/create", {}),
        Question("elicitation/create", {"mode": "url"}),
        Question("sampling/createMessage", {}),
        Question("sampling/createMessage", {"tools": []}),
        Question("roots/list", {}),
    ]
    both = merged(one, other)

    for question in questions:
        possible = question.missing(one) is None or question.missing(other) is None
        assert (question.missing(both) is None) is possible


@pytest.mark.requirement("QST-44")
@rows(
    ("method", "params", "is_too_large"),
    [
        ("sampling/createMessage", {"messages": [{"data": "x" * 1_900_000}]}, False),
        ("sampling/createMessage", {"messages": [{"data": "x" * 2_200_000}]}, True),
        ("sampling/createMessage", {"messages": [[]] * 5000}, True),
        ("roots/list", {"_meta": {"x": "y" * 70_000}}, True),
        ("roots/list", {}, False),
    ],
)
def test_every_question_has_a_limit(method: str, params: JSONObject, is_too_large: bool) -> None:
    assert Question(method, params).is_too_large is is_too_large
