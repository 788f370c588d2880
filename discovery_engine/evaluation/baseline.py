"""An earlier run, and what has moved since.

A baseline is the JSON of a run that `discovery tune eval --save` writes. It comes from a file,
so it is untrusted: checked, and refused as a whole if it is not valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import ConfigurationError, Diagnostic, Origin
from discovery_engine.evaluation.report import METRICS, Metric, Report, ReportRow, Totals
from discovery_engine.view.search_answers import Decision

Direction: TypeAlias = Literal["better", "worse", "changed", "new", "gone"]


class QueryChange(Struct, frozen=True):
    """One query whose answer stands elsewhere than before."""

    id: str
    query: str
    before: str
    """The standing in the baseline; empty for a query that is new."""
    after: str
    """The standing now; empty for a query that is gone."""
    direction: Direction

    def to_json(self) -> JSONObject:
        return {
            "id": self.id,
            "query": self.query,
            "before": self.before,
            "after": self.after,
            "direction": self.direction,
        }


class MetricChange(Struct, frozen=True):
    """One measure that is another than before."""

    metric: Metric
    before: float | None
    after: float | None

    def to_json(self) -> JSONObject:
        return {"metric": self.metric.name, "before": self.before, "after": self.after}


class Baseline(Struct, frozen=True):
    rows: tuple[ReportRow, ...]
    totals: Totals

    @classmethod
    def of(cls, report: Report) -> Baseline:
        return cls(report.rows, report.totals)


class _Loose(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class _RowForm(_Loose):
    id: str
    query: str
    server: str | None = None
    tools: list[str]
    found: list[str]
    tokens: int
    milliseconds: float
    decision: Literal["match", "unsure", "none"] | None = None
    """Earlier runs lack it: any tools were a match."""

    def to_row(self) -> ReportRow:
        decision = self.decision or ("match" if self.found else "none")
        return ReportRow(
            self.id,
            self.query,
            self.server,
            tuple(self.tools),
            tuple(self.found),
            Decision(decision),
            self.tokens,
            self.milliseconds,
        )


class _RunForm(_Loose):
    queries: list[_RowForm]


def read_baseline(content: bytes, *, file: str) -> Baseline:
    """Read a run from JSON; its measures are computed again from its rows.

    Raises:
        ConfigurationError: If it is no such text.
    """
    try:
        form = _RunForm.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"]))
        message = f"is no saved run: {first['msg']}"
        hint = "`discovery tune eval QUERIES --save FILE` writes one"
        problem = Diagnostic("BASELINE_INVALID", message, hint, path, Origin(file))
        raise ConfigurationError([problem]) from error
    return Baseline.of(Report(tuple(row.to_row() for row in form.queries)))


def query_changes(before: Baseline, after: Baseline) -> tuple[QueryChange, ...]:
    """The queries that stand elsewhere: what got worse first, then by id."""
    earlier, later = _by_id(before), _by_id(after)
    ids = sorted(earlier.keys() | later.keys())
    moves = (_move(earlier.get(query_id), later.get(query_id)) for query_id in ids)
    return tuple(sorted(filter(None, moves), key=lambda move: _ORDER.index(move.direction)))


def metric_changes(before: Baseline, after: Baseline) -> tuple[MetricChange, ...]:
    """The measures that differ, in the order of `METRICS`; times are never quite the same."""
    pairs = ((m, before.totals.get(m.name), after.totals.get(m.name)) for m in METRICS)
    return tuple(MetricChange(*pair) for pair in pairs if pair[1] != pair[2])


_ORDER: tuple[Direction, ...] = ("worse", "gone", "changed", "new", "better")


def _by_id(run: Baseline) -> Mapping[str, ReportRow]:
    return {row.id: row for row in run.rows}


def _move(before: ReportRow | None, after: ReportRow | None) -> QueryChange | None:
    row = after or before
    if row is None:
        raise AssertionError("a query is in one of the two runs")
    direction = _direction(before, after)
    if direction is None:
        return None
    standings = [row.standing if row else "" for row in (before, after)]
    return QueryChange(row.id, row.query, standings[0], standings[1], direction)


def _direction(before: ReportRow | None, after: ReportRow | None) -> Direction | None:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    if set(before.right) != set(after.right):
        return "changed"
    if before.score != after.score:
        return "better" if after.score > before.score else "worse"
    return None if before.standing == after.standing else "changed"
