"""No answer is longer than it may be, whatever the catalog contains."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.budget import Budget, estimated_tokens
from discovery_engine.agent.list_rendering import details_result, servers_result, tools_result
from discovery_engine.agent.search_rendering import search_result, searches_result
from discovery_engine.agent.tool_text import Detail
from discovery_engine.catalog import ServerPart
from discovery_engine.errors.codes import FAMILIES
from discovery_engine.tools.meta_tools import MIN_TOKENS
from discovery_engine.view.notices import Notice
from tests.factories import make_entry, make_part
from tests.unit.server.fakes import make_view, object_schema

WORDS = st.one_of(
    st.text(min_size=1, max_size=40),
    st.sampled_from(["issue", "查询指定城市的实时天气信息", "x" * 900, "word " * 400, "é\n" * 99]),
)
SCHEMAS = st.builds(
    lambda required, named: object_schema(tuple(required), **named),
    st.lists(WORDS, max_size=3),
    st.dictionaries(
        WORDS,
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "integer", "array"]),
                "enum": st.lists(WORDS, max_size=4),
                "description": WORDS,
            },
        ),
        max_size=5,
    ),
)
ENTRIES = st.builds(
    lambda name, about, tags, schema, enabled: make_entry(
        name, "s", description=about, tags=tags, inputSchema=schema, enabled=enabled
    ),
    WORDS,
    WORDS,
    st.lists(WORDS, max_size=2),
    SCHEMAS,
    st.booleans(),
)
PARTS = st.builds(
    lambda entries: make_part("s", *{e.tool.name: e for e in entries}.values()),
    st.lists(ENTRIES, min_size=1, max_size=8),
)
NOTICES = st.lists(
    st.builds(
        Notice,
        st.sampled_from([*FAMILIES["Servers"], *FAMILIES["Tools"], *FAMILIES["Answers"]]),
        message=WORDS,
        subject=st.just("") | WORDS,
    ),
    max_size=6,
)
TOKENS = st.integers(min_value=MIN_TOKENS, max_value=600)
MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def tokens_of(result: JSONObject) -> int:
    [block] = result["content"]
    return estimated_tokens(block["text"])


@pytest.mark.requirement("BUD-1")
@MANY
@given(PARTS, NOTICES, TOKENS, st.sampled_from(Detail), st.lists(WORDS, min_size=1, max_size=10))
def test_search_keeps_to_its_budget(
    part: ServerPart, notices: list[Notice], tokens: int, richest: Detail, queries: list[str]
) -> None:
    view = make_view(part)
    answers = [
        replace(view.search(query), query=query, notices=tuple(notices))
        for query in (part.entries[0].tool.name, *queries)
    ]

    one = search_result(answers[0], Budget(tokens), richest)
    several = searches_result(answers, Budget(tokens), richest)

    assert tokens_of(one) <= tokens
    assert 0 < tokens_of(several) <= tokens


@pytest.mark.requirement("BUD-1")
@MANY
@given(PARTS, NOTICES, TOKENS, st.sampled_from(Detail))
def test_lists_and_details_keep_to_their_budget(
    part: ServerPart, notices: list[Notice], tokens: int, richest: Detail
) -> None:
    view = make_view(part)
    budget = Budget(tokens)
    listed = replace(view.list_tools("s", include_disabled=True), notices=tuple(notices))

    assert 0 < tokens_of(tools_result(listed, budget, richest)) <= tokens
    assert 0 < tokens_of(servers_result(view.servers() * 30, budget)) <= tokens
    for entry in part.entries:
        assert 0 < tokens_of(details_result(entry, view, budget)) <= tokens
