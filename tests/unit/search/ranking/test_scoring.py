from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.query.retrieval import Retrieval
from discovery_engine.search.ranking.relevance import contributions, score_tools, shares_of
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_part, make_tool

WORDS = ["send", "mail", "cancel", "yak", "zebra", "weather", "and then", "friend", "quux"]
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def index() -> Index:
    texts = ["Send a mail.", "Revoke the mail of a yak.", "Weather for zebras, yaks and friends."]
    tools = [make_tool(f"tool_{n}", "a", description=text) for n, text in enumerate(texts)]
    return Index().update(make_catalog(make_part("a", *tools)), {}, default_lexicon())


@pytest.mark.requirement("REL-50")
@given(QUERIES)
def test_what_each_term_adds_to_a_score_adds_up_to_it(index: Index, query: str) -> None:
    query = QueryAnalyzer(default_lexicon(), index).analyze(query)

    found = score_tools(index.levels[0].postings, range(index.size), query)

    for doc, score in enumerate(found):
        impacts = index.impacts(DocId(0, doc), query.weights)
        assert sum(contributions(impacts, query).values()) == pytest.approx(score)


@given(QUERIES)
def test_sums_of_all_terms_need_not_be_added_up_again(index: Index, query: str) -> None:
    terms = QueryAnalyzer(default_lexicon(), index).analyze(query)
    plain = QueryTerms(terms.weights, (), terms.unknown, terms.unknown_weight, terms.stems)

    found = Retrieval(index, plain).find_candidates(least=2, allowed=lambda _: True)

    assert found.are_by_all_terms
    docs = sorted(doc_id.doc for doc_id in found.doc_ids)
    shares = shares_of([one for one, _ in sorted(found.scored, key=lambda one: one[1])], plain)
    assert shares == score_tools(index.levels[0].postings, docs, plain)
