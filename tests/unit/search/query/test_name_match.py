from __future__ import annotations

import pytest

from discovery_engine.search.index.index import Index
from discovery_engine.search.query.analyzer import QueryAnalyzer
from discovery_engine.search.query.retrieval import NameMatchKind, match_names
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_part
from tests.rows import rows

LONG = "abcdefghij" * 8  # characters of which a mistyped name may have just so many


def names_of(query: str, *tools: str) -> dict[str, NameMatchKind]:
    """The tools that a query names, and how."""
    index = Index().update(make_catalog(make_part("a", *tools)), {}, default_lexicon())
    terms = QueryAnalyzer(default_lexicon(), index).analyze(query)
    found = match_names(index, query, terms)
    return {index.entry(doc_id).tool.name: match.kind for doc_id, match in found.items()}


@pytest.mark.requirement("REL-12")
def test_of_two_names_that_are_as_near_none_is_meant() -> None:
    assert names_of("create_issu", "create_issue", "create_issur") == {}


@rows(
    ("query", "tool", "is_meant"),
    [
        pytest.param("q w e r t yuiop", "q_w_e_r_t_yuiopa", True, id="six words"),
        pytest.param("q w e r t y uiop", "q_w_e_r_t_y_uiopa", False, id="seven words"),
        pytest.param(LONG, f"{LONG}x", True, id="eighty characters"),
        pytest.param(f"{LONG}y", f"{LONG}x", False, id="more"),
    ],
)
def test_what_is_longer_than_a_name_is_not_taken_for_a_mistyped_one(
    query: str, tool: str, *, is_meant: bool
) -> None:
    assert names_of(query, tool) == ({tool: NameMatchKind.TYPO} if is_meant else {})
