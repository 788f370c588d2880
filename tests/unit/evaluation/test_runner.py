from __future__ import annotations

from itertools import count

import pytest

from discovery_engine.config.settings import SearchSettings
from discovery_engine.evaluation.queries import Query, QuerySet
from discovery_engine.evaluation.report import Report
from discovery_engine.evaluation.runner import run
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.view.search_answers import Decision, SearchAnswer
from discovery_engine.view.view import View
from tests.factories import make_entry, make_part, make_settings
from tests.unit.evaluation.runs import usual_view, view_of

CREATE = ToolKey(ServerName("github"), ToolName("create_issue"))


def hits(answer: SearchAnswer, _: int) -> int:
    return len(answer.hits)


def ask(view: View, *queries: Query) -> Report:
    ticks = count()
    return run(QuerySet(queries, ("left out",)), view, cost=hits, clock=lambda: next(ticks))


def test_a_row_has_what_was_found_and_what_it_took() -> None:
    report = ask(usual_view(), Query("q", "create an issue", (CREATE,)))

    [row] = report.rows
    assert row.found[0] == "github:create_issue"
    assert row.right == ("github:create_issue",)
    assert row.ranks == (1,)
    assert row.tokens == len(row.found)
    assert row.milliseconds == 1000
    assert report.skipped == ("left out",)


def test_a_query_may_be_for_one_server() -> None:
    [row] = ask(usual_view(), Query("q", "convert issue", server=ServerName("time"))).rows

    assert row.server == "time"
    assert row.found == ("time:convert_time",)


def test_a_query_that_nothing_fits_is_not_answered() -> None:
    [row] = ask(usual_view(), Query("q", "pizza")).rows

    assert row.decision is Decision.NONE
    assert row.standing == "none"


def test_ten_tools_count_and_the_cost_is_of_the_usual_answer() -> None:
    part = make_part(
        "s", *(make_entry(f"tool{i:02}", "s", description="Weigh apples.") for i in range(14))
    )
    view = view_of(part, settings=make_settings("s", search=SearchSettings(limit=3)))

    [row] = ask(view, Query("q", "weigh apples")).rows

    assert len(row.found) == 10
    assert row.tokens == 3


@pytest.mark.requirement("EVA-12")
def test_equal_queries_on_an_equal_catalog_give_equal_figures() -> None:
    query = Query("q", "list issues of a repository", (CREATE,))

    assert ask(usual_view(), query) == ask(usual_view(), query)
