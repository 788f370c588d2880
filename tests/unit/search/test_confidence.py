from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.search.commonness import default_weights, read_weights
from discovery_engine.search.confidence import (
    Model,
    Signals,
    default_model,
    in_all,
    says_all,
    signals_of,
)
from discovery_engine.search.documents import FULL
from discovery_engine.search.lexicon import default_lexicon
from discovery_engine.search.named import Nearness
from discovery_engine.search.question import Question, Reader

shares = st.floats(0, 1)
signals = st.builds(
    Signals,
    fit=shares,
    told=st.floats(0, 100),
    named=shares,
    lead=shares,
    strange=st.floats(0, 100),
    size=st.integers(0, 1_000_000),
    meant=st.none() | st.floats(-10, 10),
)
models = st.builds(Model, *[st.floats(0, 10)] * 7, st.floats(-10, 10))
FAIR = Signals(fit=0.4, told=0.5, named=0.5, lead=0.1, strange=0.3, size=500)


def question_of(query: str, known: set[str]) -> Question:
    lexicon = default_lexicon()
    terms = {term for word in known for term in lexicon.terms(word)}
    return Reader(lexicon, lambda term: int(term in terms), 100).read(query)


def signals_for(
    query: str, impacts: dict[str, int], *, known: set[str], name: str = "x"
) -> Signals:
    return signals_of(
        question_of(query, known),
        impacts,
        name=name,
        lexicon=default_lexicon(),
        weights={"almanac": 0.8, "list": 0.1, "invoic": 0.6},
        lead=0.0,
        size=100,
    )


@given(models, signals)
def test_confidence_is_a_probability(model: Model, given_signals: Signals) -> None:
    assert 0 <= model(given_signals) <= 1


@pytest.mark.requirement("ANS-11")
@pytest.mark.parametrize("signal", ["fit", "told", "named", "lead"])
@given(given_signals=signals, more=shares)
def test_confidence_never_falls_with(signal: str, given_signals: Signals, more: float) -> None:
    raised = replace(given_signals, **{signal: getattr(given_signals, signal) + more})

    assert default_model()(raised) >= default_model()(given_signals)


@pytest.mark.requirement("ANS-11")
@given(given_signals=signals, strange=shares, size=st.integers(0, 100_000))
def test_confidence_never_rises_with_strange_words_or_with_more_tools(
    given_signals: Signals, strange: float, size: int
) -> None:
    stranger = replace(given_signals, strange=given_signals.strange + strange)
    larger = replace(given_signals, size=given_signals.size + size)

    assert default_model()(stranger) <= default_model()(given_signals)
    assert default_model()(larger) <= default_model()(given_signals)


@pytest.mark.requirement("ANS-11")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"fit": 0.8}, id="more is said"),
        pytest.param({"told": 1.0}, id="more telling words are said"),
        pytest.param({"named": 1.0}, id="more of the name is said"),
        pytest.param({"lead": 0.5}, id="the next is further behind"),
        pytest.param({"strange": 0.0}, id="no word is strange"),
        pytest.param({"size": 50}, id="there are fewer tools"),
    ],
)
def test_each_signal_counts(change: dict[str, float]) -> None:
    assert default_model()(replace(FAIR, **change)) > default_model()(FAIR)


def test_tool_that_is_meant_more_surely_is_more_probable() -> None:
    model = default_model(with_vectors=True)

    assert model(replace(FAIR, meant=4.0)) > model(replace(FAIR, meant=2.0))


def test_telling_word_tells_more_than_a_common_one() -> None:
    known = {"almanac", "list"}

    telling = signals_for("almanac list", {"almanac": FULL}, known=known)
    common = signals_for("almanac list", {"list": FULL}, known=known)

    assert telling.told == pytest.approx(0.8)
    assert common.told == pytest.approx(0.1)


def test_word_that_tools_elsewhere_say_is_strange_and_a_name_is_not() -> None:
    found = signals_for("list invoices of zhang", {"list": FULL}, known={"list"})

    assert found.strange == pytest.approx(0.6)


def test_synonym_counts_for_less_than_the_word() -> None:
    lexicon = default_lexicon()
    stem, concept, *_ = lexicon.terms("delete")

    word = signals_for("delete", {stem: FULL}, known={"delete"})
    synonym = signals_for("delete", {concept: FULL}, known={"delete"})

    assert 0 < synonym.told < word.told


def test_name_that_the_query_says_in_part_is_named_in_part() -> None:
    found = signals_for("invoice", {}, known={"invoice"}, name="list_invoices")

    assert found.named == pytest.approx(0.6 / 0.7)


def test_query_of_which_nothing_is_known_has_no_fit() -> None:
    found = signals_for("almanac", {}, known=set())

    assert (found.fit, found.told) == (0, 0)


@pytest.mark.parametrize(
    ("nearness", "least"),
    [
        pytest.param(Nearness.LITERAL, 0.99, id="literal"),
        pytest.param(Nearness.SPELLED, 0.99, id="in another spelling"),
        pytest.param(Nearness.MISTYPED, 0.9, id="mistyped"),
        pytest.param(Nearness.NOT, 0.1, id="no name"),
    ],
)
def test_name_speaks_for_itself(nearness: Nearness, least: float) -> None:
    found = in_all(0.1, nearness=nearness, tagged=0.0, says_all=False)

    assert found == pytest.approx(least)


@given(by_words=shares, nearness=st.sampled_from(Nearness), tagged=shares, more=shares)
def test_what_speaks_for_a_tool_only_adds(
    by_words: float, nearness: Nearness, tagged: float, more: float
) -> None:
    less, most = sorted((tagged, more))

    found = in_all(by_words, nearness=nearness, tagged=less, says_all=False)

    assert by_words - 1e-12 <= found <= 1
    assert found <= in_all(by_words, nearness=nearness, tagged=most, says_all=True)


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
    assert says_all(question_of(query, {"almanac", "list"}), said, default_lexicon()) is expected


def test_weights_are_read_with_several_stems_a_line() -> None:
    assert read_weights(["# said", "0.5 a b", "0.7 c"]) == {"a": 0.5, "b": 0.5, "c": 0.7}


def test_table_knows_what_says_little_and_what_says_a_lot() -> None:
    weights = default_weights()

    assert weights["inform"] < weights["playlist"]
    assert all(0 <= weight <= 1 for weight in weights.values())
