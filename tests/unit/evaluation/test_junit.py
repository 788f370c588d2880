from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.evaluation.report import Report
from discovery_engine.evaluation.report_formats import to_junit
from tests.unit.evaluation.runs import REPORTS, make_row


@pytest.mark.requirement("EVA-23")
@given(REPORTS, st.text())
def test_the_xml_parses_whatever_queries_are_called(report: Report, name: str) -> None:
    rows = (*report.rows, make_row(name or "q", [name or "t"]))

    suite = ET.fromstring(to_junit(Report(rows, (name,))))[0]

    assert len(suite) == len(rows) + 1
