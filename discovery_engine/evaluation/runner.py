"""Asks the owner's queries, one after another, of the catalog as an agent sees it."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from discovery_engine.evaluation.metrics import DEPTH
from discovery_engine.evaluation.queries import Query, QuerySet
from discovery_engine.evaluation.report import Report, ReportRow
from discovery_engine.view.search_answers import SearchAnswer
from discovery_engine.view.view import View

Cost = Callable[[SearchAnswer, int], int]
"""The tokens that an answer takes as an agent gets it, of at most so many."""

# Known words, and one like no other: what is loaded for either on first use is not timed.
_WARM_UP = ("list all files", "xqzvkj")


def run(
    asked: QuerySet, view: View, *, cost: Cost, clock: Callable[[], float] = time.perf_counter
) -> Report:
    """Ask each query once; `clock` counts seconds."""
    for words in _WARM_UP:
        view.search(words)
    return Report(tuple(_row(q, view, cost, clock) for q in asked.queries), asked.skipped)


def _row(query: Query, view: View, cost: Cost, clock: Callable[[], float]) -> ReportRow:
    usual = view.settings.search.limit
    start = clock()
    answer = view.search(query.text, server=query.server, limit=max(usual, DEPTH))
    spent = clock() - start
    return ReportRow(
        id=query.id,
        query=query.text,
        server=query.server,
        right=tuple(map(str, query.tools)),
        found=tuple(str(hit.entry.key) for hit in answer.hits[:DEPTH]),
        decision=answer.decision,
        tokens=cost(replace(answer, hits=answer.hits[:usual]), view.settings.search.max_tokens),
        milliseconds=spent * 1000,
    )
