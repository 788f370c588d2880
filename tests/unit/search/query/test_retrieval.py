from __future__ import annotations

import pytest
from msgspec.structs import replace

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.query.retrieval import Retrieval, _sums
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
    return Retrieval(index, asked(index, query)).find_candidates(least=10, allowed=allowed).doc_ids


def test_a_common_term_is_passed_over_when_rare_ones_found_enough(index: Index) -> None:
    assert 10 <= len(chosen(index, "zebra yak")) <= 600


def test_only_the_best_and_their_equals_are_chosen(index: Index) -> None:
    doc_ids = chosen(index, "fox zebra")

    assert len(doc_ids) == 9000
    assert len(chosen(index, "fox")) == 1


def test_what_is_not_allowed_does_not_crowd_out_what_is(index: Index) -> None:
    wanted = [doc_id for doc_id in chosen(index, "zebra") if doc_id.doc % 1000 == 999]

    found = chosen(index, "zebra yak", allowed=lambda doc_id: doc_id.doc % 1000 == 999)

    assert sorted(found) == sorted(wanted)


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
    first = retrieval.find_candidates(least=650, allowed=lambda _: True).scored
    before = len(read)

    again = [retrieval.find_candidates(least=n, allowed=lambda _: True).scored for n in (650, 10)]

    assert before
    assert len(read) == before
    fresh = [
        Retrieval(index, asked(index, "fox yak zebra"))
        .find_candidates(least=n, allowed=lambda _: True)
        .scored
        for n in (650, 10)
    ]
    assert list(map(sorted, again)) == list(map(sorted, fresh))
    assert sorted(first) == sorted(again[0])


def test_few_and_many_postings_of_a_level_give_the_same_sums(index: Index) -> None:
    """Sums are kept in a list where many tools hold a term, otherwise in a map."""
    [level] = index.levels
    rare, common = asked(index, "fox yak"), asked(index, "fox yak zebra")

    few, many = _sums(level, rare.weights), _sums(level, common.weights)

    assert isinstance(few, dict)
    assert isinstance(many, list)
    yaks = _sums(level, {"zebra": 1.0} | rare.weights)
    alone = _sums(level, {"zebra": 1.0})
    assert all(yaks[doc] - alone[doc] == pytest.approx(one) for doc, one in few.items())
