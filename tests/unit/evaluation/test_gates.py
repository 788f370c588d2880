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
