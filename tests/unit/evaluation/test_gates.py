from __future__ import annotations

import pytest

from discovery_engine.evaluation.gates import Gate, InvalidGateError
from discovery_engine.evaluation.report import Report
from tests.rows import rows
from tests.unit.evaluation.runs import make_row

TOTALS = Report((make_row(right=["s:a"], found=["s:b", "s:a"]),)).totals


@pytest.mark.requirement("EVA-21")
@rows(
    ("text", "more", "held"),
    [
        pytest.param("mrr=0.5", True, True, id="just kept"),
        pytest.param("mrr=0.51", True, False, id="under"),
        pytest.param("missed_rate=0", False, True, id="just not over"),
        pytest.param("tokens=9.5", False, False, id="over"),
        pytest.param("Missed-Rate = 0.1", False, True, id="another spelling"),
    ],
)
def test_a_gate_holds_up_to_its_limit(text: str, *, more: bool, held: bool) -> None:
    assert Gate.parse(text, more_is_better=more).check(TOTALS, None).held is held


@pytest.mark.requirement("EVA-21")
def test_a_gate_may_ask_for_what_the_baseline_had() -> None:
    gate = Gate.parse("mrr=baseline", more_is_better=True)

    assert gate.check(TOTALS, TOTALS).held
    assert not gate.check(TOTALS, {"mrr": 0.7}).held


def test_a_judgement_is_a_sentence() -> None:
    under = Gate.parse("mrr=0.9", more_is_better=True).check(TOTALS, None)
    kept = Gate.parse("p95=5", more_is_better=False).check(TOTALS, None)

    assert str(under) == "mrr is 0.500, under 0.900"
    assert str(kept) == "p95 is 1.00 ms, not over 5.00 ms"


@pytest.mark.requirement("EVA-22")
@rows(
    ("text", "reason"),
    [
        pytest.param("recal@5=1", "did you mean 'recall@5'?", id="misspelt"),
        pytest.param("zebra=1", "known are hit@1, ", id="unknown"),
        pytest.param("mrr=high", "neither a number", id="no number"),
        pytest.param("mrr=nan", "neither a number", id="not a number"),
        pytest.param("mrr", "there is no measure", id="no limit"),
        pytest.param("tokens=5", "use --fail-over", id="wrong side"),
    ],
)
def test_a_limit_that_cannot_be_read_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidGateError, match=reason):
        Gate.parse(text, more_is_better=True)


@pytest.mark.requirement("EVA-22")
@rows(
    ("text", "more"),
    [
        pytest.param("false_match_rate=0.1", False, id="not measured"),
        pytest.param("mrr=baseline", True, id="no baseline"),
    ],
)
def test_a_limit_that_cannot_be_judged_is_refused(text: str, *, more: bool) -> None:
    gate = Gate.parse(text, more_is_better=more)

    with pytest.raises(InvalidGateError):
        gate.check(TOTALS, None)
