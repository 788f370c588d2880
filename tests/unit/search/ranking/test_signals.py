from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.operations.operation import Operation
from discovery_engine.search.operations.request_reading import RequestReading, read_request
from discovery_engine.search.operations.tool_profile import ToolProfile
from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.ranking.inverse_document_frequency import default_idf, parse_idf
from discovery_engine.search.ranking.signals import (
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


def test_pair_is_of_the_two_most_telling_words_of_the_tool_that_says_the_most() -> None:
    known = {"almanac", "list", "invoices"}
    modest, best = (
        {"list": MAX_IMPACT},
        {"almanac": MAX_IMPACT, "list": MAX_IMPACT, "invoic": MAX_IMPACT // 4},
    )

    found = signals_for("list invoices almanac", modest, best, known=known)

    assert found.pair == pytest.approx(0.8 + 0.6 / 2, abs=0.01)


def test_word_that_is_said_in_passing_counts_for_less() -> None:
    plain = signals_for("almanac", {"almanac": MAX_IMPACT}, known={"almanac"})
    passing = signals_for("almanac", {"almanac": MAX_IMPACT // 4}, known={"almanac"})

    assert passing.pair == pytest.approx(plain.pair / 2, abs=0.01)


def test_synonym_counts_for_less_than_the_word() -> None:
    lexicon = default_lexicon()
    stem, concept, *_ = lexicon.terms("delete")

    word = signals_for("delete", {stem: MAX_IMPACT}, known={"delete"})
    synonym = signals_for("delete", {concept: MAX_IMPACT}, known={"delete"})

    assert 0 < synonym.pair < word.pair


def test_request_for_several_things_is_distinguished_from_one_for_a_single_thing() -> None:
    known = {"list", "invoices", "almanac", "zebra"}

    assert signals_for("list the invoices and then almanac the zebra", {}, known=known).several
    assert not signals_for("list invoices", {}, known=known).several


def test_number_that_no_tool_says_asks_for_nothing() -> None:
    found = signals_for("almanac 2024", {"almanac": MAX_IMPACT}, known={"almanac"})

    assert (found.asked, found.explained) == (pytest.approx(0.8), 1)


def test_explained_is_the_share_of_what_is_asked_that_the_best_tool_has() -> None:
    known = {"almanac", "list"}

    found = signals_for("list almanac of zebras", {"almanac": 1}, {"list": 9}, known=known)

    assert found.explained == pytest.approx(0.8 / (0.8 + 0.1 + 0.9))


def test_an_argument_need_not_be_explained() -> None:
    known = {"almanac", "zebra"}

    found = signals_for("almanac zebra", {"almanac": 1}, known=known, arguments={"zebra"})
    unknown = signals_for("almanac zhang", {"almanac": 1}, known=known, arguments={"zhang"})

    assert (found.explained, unknown.explained) == (1, 1)


def test_of_arguments_alone_half_is_explained() -> None:
    assert signals_for("zhang", {}, known=set(), arguments={"zhang"}).explained == 0.5


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


@given(st.lists(st.floats(0, 1), max_size=6))
def test_lead_is_from_0_to_1(relevances: list[float]) -> None:
    assert 0 <= lead(sorted(relevances, reverse=True)) <= 1


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


def test_an_operation_that_is_guessed_counts_for_half() -> None:
    reading = reading_of(Operation.CREATE, is_explicit=False)

    assert operation_agreement(reading, profile_of(Operation.CREATE)) == 0.75
    assert operation_agreement(reading, profile_of(Operation.DELETE)) == 0.25


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


def test_unknown_word_that_tells_something_is_asked_for() -> None:
    found = signals_for("list invoices", {"list": MAX_IMPACT}, known={"list"})

    assert found.asked == pytest.approx(0.1 + 0.6)


def test_word_that_tools_have_only_a_synonym_of_tells_what_it_tells_itself() -> None:
    found = signals_for("song", {}, known={"tune"}, idf={"song": 0.4})

    assert found.asked == pytest.approx(0.4)


def test_word_about_the_same_subject_counts_for_less_than_a_synonym() -> None:
    lexicon = default_lexicon()
    _stem, concept, subject = lexicon.terms("song")

    synonym = signals_for("song", {concept: MAX_IMPACT}, known={"song"})
    akin = signals_for("song", {subject: MAX_IMPACT}, known={"song"})

    assert akin.pair == pytest.approx(0.9 * math.sqrt(0.25))
    assert synonym.pair == pytest.approx(0.9 * math.sqrt(0.65))


def test_query_of_which_nothing_is_known_has_no_fit() -> None:
    found = signals_for("almanac", {}, known=set())

    assert (found.fit, found.pair) == (0, 0)


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


def test_weights_are_read_with_several_stems_a_line() -> None:
    assert parse_idf(["# said", "0.5 a b", "0.7 c"]) == {"a": 0.5, "b": 0.5, "c": 0.7}


def test_table_knows_what_says_little_and_what_says_a_lot() -> None:
    weights = default_idf()

    assert weights["inform"] < weights["playlist"]
    assert all(0 <= weight <= 1 for weight in weights.values())
