from __future__ import annotations

import json

import pytest
from hypothesis import given

from discovery_engine.evaluation.report import METRICS, Report, shown
from discovery_engine.view.search_answers import Decision
from tests.rows import rows
from tests.unit.evaluation.runs import REPORTS, make_row

MATCH, UNSURE, NONE = Decision
BY_NAME = {metric.name: metric for metric in METRICS}


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


@pytest.mark.requirement("EVA-11")
def test_what_the_queries_do_not_measure_is_none() -> None:
    serviceable = Report((make_row(right=["s:a"], found=["s:a"]),)).totals
    unserviceable = Report((make_row(),)).totals

    assert serviceable["false_match_rate"] is None
    assert unserviceable["recall@5"] is None
    assert unserviceable["missed_rate"] is None
    assert set(Report(()).totals.values()) == {None}


@rows(
    ("right", "found", "decision", "standing", "good"),
    [
        pytest.param(["s:a"], ["s:b", "s:a"], MATCH, "2", True, id="found"),
        pytest.param(["s:a", "s:b"], ["s:b", "s:a"], UNSURE, "1, 2", True, id="both found"),
        pytest.param(["s:a"], ["s:b"], MATCH, "not found", False, id="answered without it"),
        pytest.param(["s:a"], [], NONE, "none", False, id="missed"),
        pytest.param([], [], NONE, "none", True, id="rightly none"),
        pytest.param([], ["s:a"], UNSURE, "unsure", True, id="the nearest"),
        pytest.param([], ["s:a"], MATCH, "match", False, id="a false match"),
    ],
)
def test_a_row_says_where_the_right_tools_stand(
    right: list[str], found: list[str], decision: Decision, standing: str, *, good: bool
) -> None:
    row = make_row(right=right, found=found, decision=decision)

    assert (row.standing, row.is_good) == (standing, good)


@pytest.mark.requirement("EVA-10")
@given(REPORTS)
def test_every_share_is_from_0_to_1(report: Report) -> None:
    shares = [report.totals[metric.name] for metric in METRICS if not metric.unit]

    assert all(share is None or 0 <= share <= 1 for share in shares)


@given(REPORTS)
def test_a_report_is_json(report: Report) -> None:
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["skipped"] == []


def test_measures_are_shown_with_their_unit() -> None:
    assert shown(0.5, BY_NAME["mrr"]) == "0.500"
    assert shown(2.345, BY_NAME["p95"]) == "2.35 ms"
    assert shown(None, BY_NAME["mrr"]) == "-"
