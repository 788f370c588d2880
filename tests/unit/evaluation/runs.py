"""Rows, runs and views that the tests of this room share."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hypothesis import strategies as st

from discovery_engine.catalog import ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.evaluation.baseline import Baseline
from discovery_engine.evaluation.report import Report, ReportRow
from discovery_engine.rules.rule import Rule
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.search_answers import Decision
from discovery_engine.view.view import View
from tests.factories import make_catalog, make_entry, make_part, make_settings

TOOLS = [f"s:{name}" for name in "abcdefghijkl"]

ROWS = st.builds(
    ReportRow,
    id=st.text(min_size=1, max_size=5),
    query=st.text(min_size=1, max_size=5),
    server=st.none() | st.text(max_size=3),
    right=st.lists(st.sampled_from(TOOLS), unique=True, max_size=3).map(tuple),
    found=st.lists(st.sampled_from(TOOLS), unique=True, max_size=10).map(tuple),
    decision=st.sampled_from(Decision),
    tokens=st.integers(0, 500),
    milliseconds=st.floats(0, 100),
)
REPORTS = st.lists(ROWS, max_size=6, unique_by=lambda row: row.id).map(
    lambda rows: Report(tuple(rows))
)


def make_row(
    id_: str = "q", right: Iterable[str] = (), found: Iterable[str] = (), **fields: object
) -> ReportRow:
    found = tuple(found)
    decision = Decision.MATCH if found else Decision.NONE
    usual = {"query": id_, "server": None, "tokens": 10, "milliseconds": 1.0, "decision": decision}
    return ReportRow(id=id_, right=tuple(right), found=found, **{**usual, **fields})  # type: ignore[arg-type]


def run_of(*rows: ReportRow) -> Baseline:
    return Baseline.of(Report(rows))


def view_of(*parts: ServerPart, settings: Settings | None = None) -> View:
    catalog = make_catalog(*parts)
    settings = settings or make_settings(*catalog.parts)
    return View(settings, catalog, partial(build_searcher, catalog, settings.search))


def usual_view() -> View:
    github = make_part(
        "github",
        make_entry("create_issue", description="Create an issue in a repository."),
        make_entry("list_issues", description="List the issues of a repository."),
        make_entry("delete_repo", description="Delete a repository.", enabled=False),
    )
    time = make_part("time", make_entry("convert_time", "time", description="Convert zones."))
    down = make_part("down", listed_at=None)
    rules = (Rule(("delete_*",), enabled=False),)
    settings = make_settings("github", "time", "down", tool_rules=rules)
    return view_of(github, time, down, settings=settings)
