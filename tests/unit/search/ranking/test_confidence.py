from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.search.query.retrieval import NameMatchKind
from discovery_engine.search.ranking.confidence import (
    AnswerSignals,
    ConfidenceModel,
    Signals,
    default_model,
    overall_confidence,
)
from tests.kinds import thinned
from tests.rows import rows

shares = st.floats(0, 1)
amounts = st.floats(0, 100)
answers = st.builds(
    AnswerSignals,
    size=st.integers(0, 1_000_000),
    lead=shares,
    operation=shares,
    operations=shares,
    types=st.booleans(),
    similarity=st.none() | st.floats(-2, 2),
    accord=st.booleans(),
)
signals = st.builds(
    Signals,
    fit=shares,
    asked=amounts,
    pair=st.floats(0, 2),
    several=st.booleans(),
    explained=shares,
    name=shares,
    strange=amounts,
    answer=answers,
)
coefficients, offsets = st.floats(0, 10), st.floats(-10, 10)
passages = st.lists(signals, min_size=1, max_size=5)
models = st.builds(
    ConfidenceModel, *[coefficients] * 14, offsets, coefficients, coefficients, offsets
)
FAIR = Signals(
    fit=0.4,
    asked=3.0,
    pair=0.5,
    several=False,
    explained=0.5,
    name=0.5,
    strange=0.3,
    answer=AnswerSignals(500, lead=0.5, operation=0.5, operations=0.5),
)
WAYS = [
    pytest.param({"with_vectors": vectors, "with_examples": examples}, id=f"{vectors} {examples}")
    for vectors in (False, True)
    for examples in (False, True)
]


def changed(one: Signals, **fields: float) -> Signals:
    """With other fields, of the answer as a whole or of the passage."""
    of_answer = {n: v for n, v in fields.items() if n in AnswerSignals.__struct_fields__}
    own = {n: v for n, v in fields.items() if n not in of_answer}
    return replace(one, **own, answer=replace(one.answer, **of_answer))


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
    assert model.probability([changed(one, similarity=None)]) == model.probability(
        [changed(one, similarity=0.0)]
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
    nothing = replace(
        FAIR, fit=0, asked=0, pair=0, several=False, explained=0, name=0, strange=100,
        answer=AnswerSignals(500, operation=0, operations=0, similarity=-2),
    )  # fmt: skip
    longer = [*given_signals, given_signals[0], nothing]

    assert default_model().probability([*longer, nothing]) <= default_model().probability(longer)


RISING = ("fit", "asked", "pair", "several", "explained", "name")
RISING_OF_ANSWER = ("lead", "operation", "operations", "types")
FALLING = ("strange", "size")


@pytest.mark.parametrize("way", thinned(WAYS))
@pytest.mark.parametrize("signal", [*RISING, *RISING_OF_ANSWER, *FALLING])
@given(given_signals=signals, more=st.integers(0, 10_000))
def test_confidence_only_rises_or_only_falls_with(
    signal: str, way: dict[str, bool], given_signals: Signals, more: int
) -> None:
    model = default_model(**way)
    owner = given_signals if hasattr(given_signals, signal) else given_signals.answer
    raised = changed(given_signals, **{signal: getattr(owner, signal) + more})

    before, after = model.probability([given_signals]), model.probability([raised])

    assert after <= before if signal in FALLING else after >= before


@rows(
    "change",
    [
        pytest.param({"fit": 0.8}, id="more is said"),
        pytest.param({"asked": 6.0}, id="the query says more"),
        pytest.param({"pair": 1.0}, id="more telling words are said"),
        pytest.param({"explained": 0.9}, id="more of it is explained"),
        pytest.param({"name": 0.9}, id="more of the name is said"),
        pytest.param({"lead": 0.9}, id="the best is far ahead"),
        pytest.param({"operation": 1.0, "operations": 1.0}, id="it does that"),
        pytest.param({"strange": 0.0}, id="no word is strange"),
    ],
)
def test_each_signal_counts(change: dict[str, float]) -> None:
    model = default_model()

    assert model.probability([changed(FAIR, **change)]) > model.probability([FAIR])


@rows("with_examples", [False, True])
def test_tool_that_is_more_similar_is_more_probable(*, with_examples: bool) -> None:
    model = default_model(with_vectors=True, with_examples=with_examples)
    more, less = (changed(FAIR, similarity=one) for one in (0.5, 0.2))

    assert model.probability([more]) > model.probability([less])


@rows(
    ("name_match", "least"),
    [
        pytest.param(NameMatchKind.EXACT, 0.99, id="literal"),
        pytest.param(NameMatchKind.SPELLING, 0.99, id="in another spelling"),
        pytest.param(NameMatchKind.TYPO, 0.9, id="mistyped"),
        pytest.param(NameMatchKind.NONE, 0.1, id="no name"),
    ],
)
def test_name_speaks_for_itself(name_match: NameMatchKind, least: float) -> None:
    found = overall_confidence(
        0.1, name_match=name_match, tagged=0.0, has_all_words=False, is_first_right=True
    )

    assert found == pytest.approx(least)


@rows(("by_words", "least"), [(0.1, 0.6), (0.7, 0.7)])
def test_tool_that_says_all_is_not_improbable(by_words: float, least: float) -> None:
    found = overall_confidence(
        by_words,
        name_match=NameMatchKind.NONE,
        tagged=0.0,
        has_all_words=True,
        is_first_right=True,
    )

    assert found == pytest.approx(least)


@given(by_words=shares, name_match=st.sampled_from(NameMatchKind), tagged=shares, more=shares)
def test_what_speaks_for_a_tool_only_adds(
    by_words: float, name_match: NameMatchKind, tagged: float, more: float
) -> None:
    less, most = sorted((tagged, more))

    found = overall_confidence(
        by_words, name_match=name_match, tagged=less, has_all_words=False, is_first_right=True
    )

    assert by_words - 1e-12 <= found <= 1
    assert found <= overall_confidence(
        by_words, name_match=name_match, tagged=most, has_all_words=True, is_first_right=True
    )
