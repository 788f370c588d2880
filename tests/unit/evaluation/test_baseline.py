from __future__ import annotations

import json

import pytest
from hypothesis import given

from discovery_engine.errors import ConfigurationError
from discovery_engine.evaluation.baseline import (
    Baseline,
    metric_changes,
    query_changes,
    read_baseline,
)
from discovery_engine.evaluation.report import Report, ReportRow
from discovery_engine.view.search_answers import Decision
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
def test_what_got_worse_comes_first() -> None:
    good, bad = {"right": ["s:a"], "found": ["s:a"]}, {"right": ["s:a"], "found": ["s:b"]}
    before = run_of(make_row("a", **bad), make_row("b", **good), make_row("c"))
    after = run_of(make_row("a", **good), make_row("b", **bad), make_row("d"))

    found = [(move.id, move.direction) for move in query_changes(before, after)]

    assert found == [("b", "worse"), ("c", "gone"), ("d", "new"), ("a", "better")]


def test_another_order_of_wrong_tools_is_no_move() -> None:
    before = make_row(right=["s:a"], found=["s:a", "s:b", "s:c"])
    after = make_row(right=["s:a"], found=["s:a", "s:c", "s:b"])

    assert query_changes(run_of(before), run_of(after)) == ()


def test_measures_that_differ_are_reported_with_both_values() -> None:
    before = run_of(make_row(right=["s:a"], found=["s:b", "s:a"]))
    after = run_of(make_row(right=["s:a"], found=["s:a"]))

    told = {c.metric.name: (c.before, c.after) for c in metric_changes(before, after)}

    assert told["mrr"] == (0.5, 1.0)
    assert "recall@5" not in told
    assert metric_changes(before, after)[0].to_json() == {
        "metric": "hit@1",
        "before": 0.0,
        "after": 1.0,
    }


@pytest.mark.requirement("EVA-20")
@given(REPORTS)
def test_a_run_has_not_moved_against_itself(report: Report) -> None:
    saved = json.dumps(report.to_json()).encode()

    before, now = read_baseline(saved, file="saved"), Baseline.of(report)

    assert query_changes(before, now) == ()
    assert metric_changes(before, now) == ()


@rows(("found", "decision"), [(["s:a"], Decision.MATCH), ([], Decision.NONE)], ids=str)
def test_a_run_saved_without_decisions_counts_any_tools_as_a_match(
    found: list[str], decision: Decision
) -> None:
    saved = Report((make_row(right=["s:a"], found=found),)).to_json()
    del saved["queries"][0]["decision"]

    [row] = read_baseline(json.dumps(saved).encode(), file="saved").rows

    assert row.decision is decision


@given(REPORTS, REPORTS)
def test_moves_the_other_way_are_the_opposite(one: Report, other: Report) -> None:
    opposite = {"better": "worse", "worse": "better", "new": "gone", "gone": "new"}
    there = query_changes(Baseline.of(one), Baseline.of(other))
    back = query_changes(Baseline.of(other), Baseline.of(one))

    turned = {m.id: opposite.get(m.direction, m.direction) for m in back}

    assert {m.id: m.direction for m in there} == turned


@rows("text", [b"", b"[]", b"{}", b'{"queries": [{"id": "a"}]}', b'{"queries": [1]}', b"\xff"])
def test_what_is_no_saved_run_is_refused_with_its_file(text: bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_baseline(text, file="old.json")

    [problem] = caught.value.problems
    assert problem.origin.file == "old.json"
    assert problem.message.startswith("is no saved run: ")
