"""A run as Markdown, for a comment on a change or a page of a report.

The text of a tool or a query is text, never markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from xml.etree.ElementTree import Element, SubElement, tostring

from discovery_engine._util.text import clean
from discovery_engine.evaluation.baseline import Baseline, QueryChange, query_changes
from discovery_engine.evaluation.gates import GateResult
from discovery_engine.evaluation.report import METRICS, Report, ReportRow, shown

_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@:$-])")
_MAX_TABLE_ROWS = 50  # rows of a table; a comment of a pull request cannot have more


def to_markdown(
    report: Report, *, baseline: Baseline | None = None, gate_results: Sequence[GateResult] = ()
) -> str:
    """The measures, the gates, what moved since the baseline, and what went wrong."""
    blocks = [
        "## Tool search",
        "\n".join(_measures(report, baseline)),
        "\n".join(f"- {'✓' if j.held else '✗'} {j}" for j in gate_results),
        *_moved(query_changes(baseline, Baseline.of(report)) if baseline else ()),
        *_failed([row for row in report.rows if not row.is_good]),
        _skipped(report.skipped),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(clean(text).split()))


def _measures(report: Report, baseline: Baseline | None) -> Iterator[str]:
    heads = ["measure", *(["before"] if baseline else []), "now"]
    yield from _table_head(heads)
    for metric in METRICS:
        values = [baseline.totals[metric.name]] if baseline else []
        values.append(report.totals[metric.name])
        yield _row([f"`{metric.name}`", *(shown(value, metric) for value in values)])


def _moved(moved: Sequence[QueryChange]) -> Iterator[str]:
    if moved:
        yield f"### Moved: {len(moved)}"
        cells = ([m.direction, plain(m.query), m.before or "-", m.after or "-"] for m in moved)
        yield _table(["", "query", "before", "now"], cells, len(moved))


def _failed(rows: Sequence[ReportRow]) -> Iterator[str]:
    if rows:
        yield f"### Not served: {len(rows)}"
        cells = ([plain(r.query), plain(_wanted(r)), plain(_first(r))] for r in rows)
        yield _table(["query", "right", "came first"], cells, len(rows))


def _skipped(ids: Sequence[str]) -> str:
    return f"Not asked, as their tools are not in the catalog: {len(ids)}" if ids else ""


def _wanted(row: ReportRow) -> str:
    return ", ".join(row.right) or "none"


def _first(row: ReportRow) -> str:
    return row.found[0] if row.found else "none"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> str:
    lines = [*_table_head(heads), *map(_row, islice(rows, _MAX_TABLE_ROWS))]
    if count > _MAX_TABLE_ROWS:
        lines.append(_row([f"and {count - _MAX_TABLE_ROWS} more", *("" for _ in heads[1:])]))
    return "\n".join(lines)


def _table_head(heads: Sequence[str]) -> Iterator[str]:
    yield _row(heads)
    yield _row(["---"] * len(heads))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# Each query is a test, and so is each gate. A query fails if no right tool was found, or if one was
# answered that no tool can serve.

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
