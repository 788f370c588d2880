from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.evaluation.gates import Gate
from discovery_engine.evaluation.junit import to_junit
from discovery_engine.evaluation.report import Report
from tests.unit.evaluation.runs import REPORTS, make_row


def test_each_query_and_each_gate_is_a_test() -> None:
    report = Report(
        (make_row("good", ["s:a"], ["s:a"]), make_row("bad", ["s:a"], ["s:b"])), ("left out",)
    )
    gates = [
        Gate.parse(text, more_is_better=True).check(report.totals, None)
        for text in ("mrr=0.5", "hit@1=0.9")
    ]

    suite = ET.fromstring(to_junit(report, gate_results=gates))[0]

    names = {case.get("name"): [child.tag for child in case] for case in suite}
    assert names == {
        "good": [],
        "bad": ["failure"],
        "left out": ["skipped"],
        "mrr": [],
        "hit@1": ["failure"],
    }
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")]
    assert counts == ["5", "2", "0", "1", "0.002000"]
    failure = suite[1][0]
    assert failure.get("message") == "not found: s:a would be right"
    assert failure.text == "bad\ns:b"


@pytest.mark.requirement("EVA-23")
@given(REPORTS, st.text())
def test_the_xml_parses_whatever_queries_are_called(report: Report, name: str) -> None:
    rows = (*report.rows, make_row(name or "q", [name or "t"]))

    suite = ET.fromstring(to_junit(Report(rows, (name,))))[0]

    assert len(suite) == len(rows) + 1
