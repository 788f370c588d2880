from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.evaluation.gates import Gate
from discovery_engine.evaluation.markdown import plain, to_markdown
from discovery_engine.evaluation.report import Report
from tests.unit.evaluation.runs import make_row, run_of

GOOD = make_row("find it", ["s:a"], ["s:a"])
BAD = make_row("find it", ["s:a"], ["s:b"])


def test_a_good_run_is_its_measures() -> None:
    text = to_markdown(Report((GOOD,)))

    assert text.startswith(
        "## Tool search\n\n| measure | now |\n| --- | --- |\n| `hit@1` | 1.000 |\n"
    )
    assert "###" not in text


def test_what_moved_and_what_was_not_served_have_tables() -> None:
    gate = Gate.parse("mrr=0.9", more_is_better=True)
    report = Report((BAD,), ("gone",))

    text = to_markdown(
        report, baseline=run_of(GOOD), gate_results=[gate.check(report.totals, None)]
    )

    assert "| `mrr` | 1.000 | 0.000 |" in text
    assert "- ✗ mrr is 0.000, under 0.900" in text
    assert "### Moved: 1" in text
    assert "| worse | find it | 1 | not found |" in text
    assert "### Not served: 1" in text
    assert "Not asked, as their tools are not in the catalog: 1" in text


def test_a_long_table_is_cut_and_reports_it() -> None:
    report = Report(tuple(make_row(f"q{i}", ["s:a"]) for i in range(60)))

    assert "| and 10 more |  |  |" in to_markdown(report)


@pytest.mark.requirement("EVA-23")
@given(st.text())
def test_untrusted_text_makes_no_markup(text: str) -> None:
    shown = plain(text)

    bare = shown.replace("\\\\", "")
    for at, character in enumerate(bare):
        if character in "|`<[*_#!":
            assert bare[at - 1] == "\\"
    assert "\n" not in shown
