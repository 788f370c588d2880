from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.engine.vector_cache import embedding_text, text_digest
from tests.factories import make_tool


@pytest.mark.requirement("EMB-10")
def test_a_tools_text_names_server_tool_and_parameters() -> None:
    schema = {"properties": {"repoName": {}, "title": {}}, "required": ["title"]}
    tool = make_tool("create_issue", "gitHub", description="Opens one.", inputSchema=schema)

    assert embedding_text(tool) == "git hub create issue: Opens one. (title, repo name)"


@given(st.text(), st.text())
def test_texts_that_differ_have_other_digests(one: str, other: str) -> None:
    assert (text_digest(one) == text_digest(other)) is (one == other)
