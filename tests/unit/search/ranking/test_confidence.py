from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.search.index.documents import MAX_IMPACT
from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.query.name_match import NameMatchKind
from discovery_engine.search.ranking.confidence import (
    ConfidenceModel,
    Signals,
    contains_all_words,
    default_model,
    measure_signals,
    overall_confidence,
)
from discovery_engine.search.ranking.inverse_document_frequency import default_idf, parse_idf
from discovery_engine.search.text.lexicon import default_lexicon
from tests.unit.search.term_counts import TermCounts

shares = st.floats(0, 1)
amounts = st.floats(0, 100)
signals = st.builds(
    Signals,
    fit=shares,
    asked=amounts,
    pair=st.floats(0, 2),
    several=st.booleans(),
    missed=amounts,
    strange=amounts,
    size=st.integers(0, 1_000_000),
    similarity=st.none() | st.floats(-2, 2),
)
coefficients, offsets = st.floats(0, 10), st.floats(-10, 10)
passages = st.lists(signals, min_size=1, max_size=5)
models = st.builds(
    ConfidenceModel, *[coefficients] * 8, offsets, coefficients, coefficients, offsets
)
FAIR = Signals(fit=0.4, asked=3.0, pair=0.5, several=False, missed=1.0, strange=0.3, size=500)


def question_of(query: str, known: set[str]) -> QueryTerms:
    lexicon = default_lexicon()
    terms = {term for word in known for term in lexicon.terms(word)}
    return QueryAnalyzer(lexicon, TermCounts(dict.fromkeys(terms, 1))).analyze(query)


def signals_for(query: str, *impacts: dict[str, int], known: set[str]) -> Signals:
    return measure_signals(
        question_of(query, known),
        impacts,
        lexicon=default_lexicon(),
        idf={"almanac": 0.8, "list": 0.1, "invoic": 0.6},
        size=100,
    )


@given(models, passages)
def test_confidence_is_a_probability(model: ConfidenceModel, given_signals: list[Signals]) -> None:
    assert 0 <= model.probability(given_signals) <= 1


@given(models, signals)
def test_the_probability_of_one_passage_has_its_log_odds(
    model: ConfidenceModel, one: Signals
) -> None:
    assert model.probability([one]) == pytest.approx(logistic(model.log_odds(one)))


@pytest.mark.requirement("ANS-14")
@given(models, st.lists(signals, min_size=2, max_size=5))
def test_several_passages_have_the_log_odds_of_the_best_and_a_part_of_the_second(
    model: ConfidenceModel, given_signals: list[Signals]
) -> None:
    best, second, *_ = sorted(map(model.log_odds, given_signals), reverse=True)

    odds = best + model.second * second - model.passages * math.log(len(given_signals))

    assert model.probability(given_signals) == pytest.approx(logistic(odds + model.long_offset))


def logistic(log_odds: float) -> float:
    """As `Model` has it, but for numbers that this form cannot hold."""
    return 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0


@given(models, signals)
def test_without_vectors_similarity_counts_as_none(model: ConfidenceModel, one: Signals) -> None:
    assert model.probability([replace(one, similarity=None)]) == model.probability(
        [replace(one, similarity=0.0)]
    )


@pytest.mark.requirement("ANS-14")
@given(passages, signals)
def test_a_passage_more_probable_than_another_never_lowers_confidence(
    given_signals: list[Signals], other: Signals
) -> None:
    model = default_model()
    worst = min(given_signals, key=model.log_odds)
    better = max(other, worst, key=model.log_odds)

    raised = [better if one is worst else one for one in given_signals]

    assert model.probability(raised) >= model.probability(given_signals)


@pytest.mark.requirement("ANS-14")
@given(passages)
def test_confidence_does_not_depend_on_the_order_of_passages(given_signals: list[Signals]) -> None:
    assert default_model().probability(given_signals[::-1]) == default_model().probability(
        given_signals
    )


@pytest.mark.requirement("ANS-14")
@given(passages)
def test_a_passage_that_fits_nothing_never_raises_confidence(given_signals: list[Signals]) -> None:
    nothing = Signals(
        fit=0, asked=0, pair=0, several=False, missed=100, strange=100, size=500, similarity=-2
    )
    longer = [*given_signals, given_signals[0], nothing]

    assert default_model().probability([*longer, nothing]) <= default_model().probability(longer)


@pytest.mark.requirement("ANS-11")
@pytest.mark.parametrize("signal", ["fit", "asked", "pair", "several"])
@given(given_signals=signals, more=st.integers(0, 3))
def test_confidence_never_falls_with(signal: str, given_signals: Signals, more: int) -> None:
    raised = replace(given_signals, **{signal: getattr(given_signals, signal) + more})

    assert default_model().probability([raised]) >= default_model().probability([given_signals])


@pytest.mark.requirement("ANS-11")
@pytest.mark.parametrize("signal", ["missed", "strange", "size"])
@given(given_signals=signals, more=st.integers(0, 10_000))
def test_confidence_never_rises_with(signal: str, given_signals: Signals, more: int) -> None:
    raised = replace(given_signals, **{signal: getattr(given_signals, signal) + more})

    assert default_model().probability([raised]) <= default_model().probability([given_signals])


@pytest.mark.requirement("ANS-11")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"fit": 0.8}, id="more is said"),
        pytest.param({"asked": 6.0}, id="the query says more"),
        pytest.param({"pair": 1.0}, id="more telling words are said"),
        pytest.param({"several": True}, id="a part of it is enough"),
        pytest.param({"missed": 0.3}, id="fewer words are missed"),
        pytest.param({"strange": 0.0}, id="no word is strange"),
        pytest.param({"size": 50}, id="there are fewer tools"),
    ],
)
def test_each_signal_counts(change: dict[str, float]) -> None:
    assert default_model().probability([replace(FAIR, **change)]) > default_model().probability(
        [FAIR]
    )


def test_tool_that_is_more_similar_is_more_probable() -> None:
    model = default_model(with_vectors=True)

    assert model.probability([replace(FAIR, similarity=0.5)]) > model.probability(
        [replace(FAIR, similarity=0.2)]
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


def test_missed_are_the_telling_words_that_the_fullest_tool_does_not_say() -> None:
    known = {"almanac", "list", "zebra"}

    found = signals_for("list almanac zebra", {}, {"almanac": 1}, known=known)

    assert found.missed == pytest.approx(0.1)
    assert found.asked == pytest.approx(0.1 + 0.8 + 0.9)


def test_word_that_tools_elsewhere_say_is_strange_and_a_name_is_not() -> None:
    found = signals_for("list invoices of zhang", {"list": MAX_IMPACT}, known={"list"})

    assert (found.strange, found.missed) == (pytest.approx(0.6), pytest.approx(0.6))


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

    assert (found.asked, found.missed) == (pytest.approx(0.8), 0)


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


def test_size_and_similarities_are_signals_as_they_are_given() -> None:
    found = measure_signals(
        question_of("list", {"list"}),
        [{}],
        lexicon=default_lexicon(),
        idf={},
        size=70,
        similarity=0.25,
    )

    assert (found.size, found.similarity) == (70, 0.25)
    assert signals_for("list", {}, known={"list"}).similarity is None


def test_unknown_word_that_tells_something_is_asked_for() -> None:
    found = signals_for("list invoices", {"list": MAX_IMPACT}, known={"list"})

    assert found.asked == pytest.approx(0.1 + 0.6)


def test_word_that_tools_have_only_a_synonym_of_tells_what_it_tells_itself() -> None:
    found = measure_signals(
        question_of("song", {"tune"}),
        [{}],
        lexicon=default_lexicon(),
        idf={"song": 0.4},
        size=100,
    )

    assert (found.asked, found.missed) == (pytest.approx(0.4), pytest.approx(0.4))


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


@pytest.mark.parametrize(
    ("name_match", "least"),
    [
        pytest.param(NameMatchKind.EXACT, 0.99, id="literal"),
        pytest.param(NameMatchKind.SPELLING, 0.99, id="in another spelling"),
        pytest.param(NameMatchKind.TYPO, 0.9, id="mistyped"),
        pytest.param(NameMatchKind.NONE, 0.1, id="no name"),
    ],
)
def test_name_speaks_for_itself(name_match: NameMatchKind, least: float) -> None:
    found = overall_confidence(0.1, name_match=name_match, tagged=0.0, has_all_words=False)

    assert found == pytest.approx(least)


@pytest.mark.parametrize(("by_words", "least"), [(0.1, 0.6), (0.7, 0.7)])
def test_tool_that_says_all_is_not_improbable(by_words: float, least: float) -> None:
    found = overall_confidence(
        by_words, name_match=NameMatchKind.NONE, tagged=0.0, has_all_words=True
    )

    assert found == pytest.approx(least)


@given(by_words=shares, name_match=st.sampled_from(NameMatchKind), tagged=shares, more=shares)
def test_what_speaks_for_a_tool_only_adds(
    by_words: float, name_match: NameMatchKind, tagged: float, more: float
) -> None:
    less, most = sorted((tagged, more))

    found = overall_confidence(by_words, name_match=name_match, tagged=less, has_all_words=False)

    assert by_words - 1e-12 <= found <= 1
    assert found <= overall_confidence(
        by_words, name_match=name_match, tagged=most, has_all_words=True
    )


@pytest.mark.parametrize(
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
