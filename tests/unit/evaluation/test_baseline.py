from __future__ import annotations

import json

import pytest
from hypothesis import given

from discovery_engine.evaluation.baseline import (
    Baseline,
    metric_changes,
    query_changes,
    read_baseline,
)
from discovery_engine.evaluation.report import Report, ReportRow
from tests.rows import rows
from tests.unit.evaluation.runs import REPORTS, make_row, run_of


@rows(
    ("before", "after", "move"),
    [
        pytest.param(
            make_row(right=["s:a"], found=["s:b", "s:a"]),
            make_row(right=["s:a"], found=["s:a"]),
            ("2", "1", "better"),
            id="up",
        ),
        pytest.param(
            make_row(right=["s:a"], found=["s:a"]),
            make_row(right=["s:a"], found=["s:b"]),
            ("1", "not found", "worse"),
            id="lost",
        ),
        pytest.param(make_row(found=["s:a"]), make_row(), ("match", "none", "better"), id="none"),
        pytest.param(
            make_row(right=["s:a"], found=["s:b"]),
            make_row(right=["s:a"]),
            ("not found", "none", "changed"),
            id="as bad in another way",
        ),
        pytest.param(
            make_row(right=["s:a"], found=["s:a"]),
            make_row(right=["s:b"], found=["s:a", "s:b"]),
            ("1", "2", "changed"),
            id="another question",
        ),
    ],
)
@pytest.mark.requirement("EVA-20")
def test_a_query_that_stands_elsewhere_has_moved(
    before: ReportRow, after: ReportRow, move: tuple[str, str, str]
) -> None:
    [found] = query_changes(run_of(before), run_of(after))

    assert (found.before, found.after, found.direction) == move


@pytest.mark.requirement("EVA-20")
@given(REPORTS)
def test_a_run_has_not_moved_against_itself(report: Report) -> None:
    saved = json.dumps(report.to_json()).encode()

    before, now = read_baseline(saved, file="saved"), Baseline.of(report)

    assert query_changes(before, now) == ()
    assert metric_changes(before, now) == ()


@given(REPORTS, REPORTS)
def test_moves_the_other_way_are_the_opposite(one: Report, other: Report) -> None:
    opposite = {"better": "worse", "worse": "better", "new": "gone", "gone": "new"}
    there = query_changes(Baseline.of(one), Baseline.of(other))
    back = query_changes(Baseline.of(other), Baseline.of(one))

    turned = {m.id: opposite.get(m.direction, m.direction) for m in back}

    assert {m.id: m.direction for m in there} == turned
