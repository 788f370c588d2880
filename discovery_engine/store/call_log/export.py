"""Entries of the call log for other programs: lines of JSON, and comma-separated values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_engine.store.call_log.log_entry import LogEntry

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.store.call_log.log_entry import ExportForm

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula to a spreadsheet."""
_FIELDS = tuple(LogEntry(0.0, "call").to_json())


def exported(entries: Iterable[LogEntry], form: ExportForm) -> Iterator[str]:
    """Entries as text, line by line."""
    return map(ndjson_line, entries) if form == "ndjson" else _csv_lines(entries)


def ndjson_line(entry: LogEntry) -> str:
    """Return a line of JSON in ASCII: nothing in it ends the line or controls a terminal."""
    return json.dumps(entry.to_json()) + "\n"


def _csv_lines(entries: Iterable[LogEntry]) -> Iterator[str]:
    yield _csv_line(_FIELDS)
    for entry in entries:
        yield _csv_line([_cell(value) for value in entry.to_json().values()])


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _cell(value: JSONValue) -> object:
    """A cell that no spreadsheet runs: an apostrophe stands before what would be a formula."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
