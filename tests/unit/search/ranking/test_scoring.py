from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.index import Index, Place
from discovery_engine.search.query.analyzer import Reader
from discovery_engine.search.ranking.scoring import contributions, scores
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_part, make_tool

WORDS = ["send", "mail", "cancel", "yak", "zebra", "weather", "and then", "friend", "quux"]
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def index() -> Index:
    texts = ["Send a mail.", "Revoke the mail of a yak.", "Weather for zebras, yaks and friends."]
    tools = [make_tool(f"tool_{n}", "a", description=text) for n, text in enumerate(texts)]
    return Index().updated(make_catalog(make_part("a", *tools)), {}, default_lexicon())


@pytest.mark.requirement("REL-50")
@given(QUERIES)
def test_what_each_term_adds_to_a_score_adds_up_to_it(index: Index, query: str) -> None:
    question = Reader(default_lexicon(), index.count, index.size).read(query)

    found = scores(index.layers[0].block, range(index.size), question)

    for doc, score in enumerate(found):
        impacts = index.impacts(Place(0, doc), question.weights)
        assert sum(contributions(impacts, question).values()) == pytest.approx(score)
