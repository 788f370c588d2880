from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.operations.operation import Operation, ToolProfile
from discovery_engine.search.operations.request_reading import RequestReading, read_request
from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.ranking.confidence import (
    AnswerSignals,
    Signals,
    contains_all_words,
    lead,
    measure_signals,
    operation_agreement,
)
from discovery_engine.search.text.lexicon import default_lexicon
from tests.rows import rows
from tests.unit.search.term_counts import TermCounts

IDF = {"almanac": 0.8, "list": 0.1, "invoic": 0.6}


def question_of(query: str, known: set[str]) -> QueryTerms:
    lexicon = default_lexicon()
    terms = {term for word in known for term in lexicon.terms(word)}
    return QueryAnalyzer(lexicon, TermCounts(dict.fromkeys(terms, 1))).analyze(query)


def signals_for(
    query: str,
    *impacts: dict[str, int],
    known: set[str],
    names: tuple[str, ...] = (),
    **fields: Any,
) -> Signals:
    stems = default_lexicon().stems(" ".join(names))
    usual: dict[str, Any] = {"arguments": frozenset(), "idf": IDF, "name": stems}
    return measure_signals(
        question_of(query, known),
        impacts,
        lexicon=default_lexicon(),
        answer=AnswerSignals(100),
        **usual | fields,
    )


def test_explained_is_the_share_of_what_is_asked_that_the_best_tool_has() -> None:
    known = {"almanac", "list"}

    found = signals_for("list almanac of zebras", {"almanac": 1}, {"list": 9}, known=known)

    assert found.explained == pytest.approx(0.8 / (0.8 + 0.1 + 0.9))


def test_name_is_the_share_of_the_name_that_the_query_has() -> None:
    known = {"almanac", "list"}

    whole = signals_for("list almanac", {}, known=known, names=("list_almanac",))
    part = signals_for("almanac", {}, known=known, names=("list_almanac",))
    synonym = signals_for("list", {}, known={"enumerate", "list"}, names=("enumerate",))

    assert whole.name == pytest.approx(1)
    assert part.name == pytest.approx(0.8 / 0.9)
    assert 0 < synonym.name < 1
    assert signals_for("list", {}, known=known).name == 0


def test_lead_is_how_far_the_fifth_tool_is_behind() -> None:
    assert lead([0.8, 0.8, 0.7, 0.6, 0.4, 0.1]) == pytest.approx(0.5)
    assert lead([0.8, 0.8, 0.7, 0.6]) == 1
    assert lead([0.0] * 5) == 1


def reading_of(operation: Operation, *, is_explicit: bool = True) -> RequestReading:
    reading = read_request("", default_lexicon(), None)
    return reading._replace(operations=int(operation), is_explicit=is_explicit)


def profile_of(operation: Operation) -> ToolProfile:
    return ToolProfile(int(operation), 0, is_for_many=False, is_for_one=False)


def test_operations_agree_more_the_nearer_they_are() -> None:
    reading = reading_of(Operation.CREATE)
    done = (Operation.CREATE, Operation.UPDATE, Operation.RUN, Operation.READ)

    found = [operation_agreement(reading, profile_of(one)) for one in done]

    assert found == sorted(set(found), reverse=True)
    assert (found[0], found[-1]) == (1, 0)


def test_fit_is_the_share_of_what_the_query_weighs_that_the_best_tool_says() -> None:
    known = {"list", "almanac"}
    every = {term: MAX_IMPACT for word in known for term in default_lexicon().terms(word)}
    halves = dict.fromkeys(every, MAX_IMPACT // 2)

    whole = signals_for("list almanac", every, known=known)
    half = signals_for("list almanac", halves, known=known)
    other = signals_for("list almanac", {"zebra": MAX_IMPACT}, every, known=known)
    strange = signals_for("list almanac zebra", every, known=known)

    assert whole.fit == pytest.approx(1)
    assert half.fit == pytest.approx(0.5, abs=0.01)
    assert other.fit == 0
    assert 0.5 < strange.fit < 0.9


@rows(
    ("query", "said", "expected"),
    [
        pytest.param("almanac", {"almanac": 9}, True, id="the only word"),
        pytest.param("almanac list", {"almanac": 9}, False, id="one of two"),
        pytest.param("almanac 42", {"almanac": 9}, True, id="a number aside"),
        pytest.param("almanac zhang", {"almanac": 9}, False, id="an unknown word"),
        pytest.param("zhang", {}, False, id="nothing known"),
    ],
)
def test_tool_says_all_or_not(query: str, said: dict[str, int], *, expected: bool) -> None:
    assert (
        contains_all_words(question_of(query, {"almanac", "list"}), said, default_lexicon())
        is expected
    )
