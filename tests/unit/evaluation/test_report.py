from __future__ import annotations

import json

import pytest
from hypothesis import given

from discovery_engine.evaluation.report import METRICS, Report
from discovery_engine.view.search_answers import Decision
from tests.unit.evaluation.runs import REPORTS, make_row


def test_totals_are_what_a_calculation_by_hand_gives() -> None:
    report = Report(
        (
            make_row("first", ["s:a"], ["s:a", "s:b"], tokens=10, milliseconds=1),
            make_row("second", ["s:a"], ["s:b", "s:a"], tokens=20, milliseconds=2),
            make_row("missed", ["s:a"], tokens=30, milliseconds=3),
            make_row("none", tokens=40, milliseconds=4),
            make_row("matched", found=["s:b"], tokens=50, milliseconds=5),
            make_row("unsure", found=["s:b"], decision=Decision.UNSURE, tokens=60, milliseconds=6),
        )
    )

    assert {name: round(value or 0, 3) for name, value in report.totals.items()} == {
        "hit@1": 0.333,
        "recall@1": 0.333,
        "recall@5": 0.667,
        "recall@10": 0.667,
        "mrr": 0.5,
        "ndcg@10": 0.544,
        "match_rate": 0.667,
        "match_hit@1": 0.5,
        "missed_rate": 0.333,
        "false_match_rate": 0.333,
        "tokens": 35,
        "p50": 3,
        "p95": 6,
    }


@pytest.mark.requirement("EVA-10")
@given(REPORTS)
def test_every_share_is_from_0_to_1(report: Report) -> None:
    shares = [report.totals[metric.name] for metric in METRICS if not metric.unit]

    assert all(share is None or 0 <= share <= 1 for share in shares)


@given(REPORTS)
def test_a_report_is_json(report: Report) -> None:
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["skipped"] == []
