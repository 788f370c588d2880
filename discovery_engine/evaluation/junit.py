"""A run as JUnit XML, the one form of test results that every CI reads.

Each query is a test, and so is each gate. A query fails if no right tool was found, or if one was
answered that no tool can serve.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from discovery_engine.evaluation.gates import GateResult
from discovery_engine.evaluation.report import Report, ReportRow

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REPLACEMENT = "\ufffd"
_SUITE = "discovery tune eval"


def to_junit(report: Report, *, gate_results: Sequence[GateResult] = ()) -> str:
    """The text of the file; names that XML cannot carry have a mark in place of what it cannot."""
    seconds = sum(row.milliseconds for row in report.rows) / 1000
    failed = sum(not row.is_good for row in report.rows) + sum(not j.held for j in gate_results)
    tests = len(report.rows) + len(report.skipped) + len(gate_results)
    counts = {"tests": tests, "failures": failed, "errors": 0, "skipped": len(report.skipped)}
    numbers = {name: str(count) for name, count in counts.items()}
    root = Element("testsuites", numbers)
    suite = SubElement(root, "testsuite", {"name": _SUITE, **numbers, "time": f"{seconds:.6f}"})
    for row in report.rows:
        _add_query(suite, row)
    for name in report.skipped:
        SubElement(_case(suite, "queries", name), "skipped", message="not in the catalog")
    for result in gate_results:
        case = _case(suite, "gates", result.metric.name)
        if not result.held:
            SubElement(case, "failure", message=str(result), type="gate")
    return tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_query(suite: Element, row: ReportRow) -> None:
    case = _case(suite, "queries", row.id)
    case.set("time", f"{row.milliseconds / 1000:.6f}")
    if not row.is_good:
        right = ", ".join(row.right) or "none"
        message = f"{row.standing}: {right} would be right"
        failure = SubElement(case, "failure", message=_text(message), type=row.standing)
        failure.text = _text("\n".join((row.query, *row.found)))


def _case(suite: Element, group: str, name: str) -> Element:
    return SubElement(suite, "testcase", classname=f"{_SUITE}.{group}", name=_text(name))


def _text(text: str) -> str:
    return _NOT_IN_XML.sub(_REPLACEMENT, text)
