from __future__ import annotations

import pytest
from msgspec.structs import replace

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.query.retrieval import Retrieval
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_entry, make_part


@pytest.fixture(scope="module")
def index() -> Index:
    """9,000 tools about zebras, of which 600 are about yaks and one about foxes."""
    entries = [
        make_entry(f"zebra_{n}", "a", description="yak" * (n < 600) + " fox" * (n == 7))
        for n in range(9000)
    ]
    return Index().update(make_catalog(make_part("a", *entries)), {}, default_lexicon())


def asked(index: Index, query: str) -> QueryTerms:
    return QueryAnalyzer(default_lexicon(), index).analyze(query)


def chosen(index: Index, query: str, allowed=lambda _: True) -> list[DocId]:
    return Retrieval(index, asked(index, query)).find_candidates(least=10, allowed=allowed)


def test_a_common_term_is_passed_over_when_rare_ones_found_enough(index: Index) -> None:
    assert 10 <= len(chosen(index, "zebra yak")) <= 600


def test_a_common_term_is_looked_up_when_nothing_else_is_asked(index: Index) -> None:
    assert len(chosen(index, "zebra")) == 9000


def test_only_the_best_and_their_equals_are_chosen(index: Index) -> None:
    doc_ids = chosen(index, "fox zebra")

    assert len(doc_ids) == 9000
    assert len(chosen(index, "fox")) == 1


def test_what_is_not_allowed_does_not_crowd_out_what_is(index: Index) -> None:
    wanted = [doc_id for doc_id in chosen(index, "zebra") if doc_id.doc % 1000 == 999]

    found = chosen(index, "zebra yak", allowed=lambda doc_id: doc_id.doc % 1000 == 999)

    assert sorted(found) == sorted(wanted)


def test_layers_that_lack_a_term_do_without(index: Index) -> None:
    part = index.servers["a"].part
    catalog = make_catalog(part, make_part("b", "lion"))
    layered = index.update(catalog, {}, default_lexicon())

    [lion] = chosen(layered, "lion")

    assert layered.entry(lion).tool.name == "lion"
    assert chosen(layered, "fox") == chosen(index, "fox")


@pytest.mark.requirement("CAC-10")
def test_a_query_asked_again_reads_no_postings(index: Index) -> None:
    read: list[str] = []

    class Lists(dict):
        def get(self, term, default=None):
            read.append(term)
            return super().get(term, default)

    [level] = index.levels
    counting = replace(level, postings=replace(level.postings, lists=Lists(level.postings.lists)))
    counted = replace(index, levels=(counting,))
    retrieval = Retrieval(counted, asked(index, "fox yak zebra"))
    first = retrieval.find_candidates(least=650, allowed=lambda _: True)
    before = len(read)

    again = [retrieval.find_candidates(least=n, allowed=lambda _: True) for n in (650, 10)]

    assert before
    assert len(read) == before
    fresh = [
        Retrieval(index, asked(index, "fox yak zebra")).find_candidates(
            least=n, allowed=lambda _: True
        )
        for n in (650, 10)
    ]
    assert list(map(sorted, again)) == list(map(sorted, fresh))
    assert sorted(first) == sorted(again[0])
