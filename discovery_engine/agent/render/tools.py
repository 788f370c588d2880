"""The answer of `list_tools`."""

from __future__ import annotations

from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named
from discovery_engine.agent.budget import Budget, first_fitting
from discovery_engine.agent.render.result import (
    left_out_note,
    make_result,
    render_items,
)
from discovery_engine.agent.structured import list_fields
from discovery_engine.agent.tool_text import Detail, tool_items
from discovery_engine.rules.rule_explanation import public_decider
from discovery_engine.view.view import ToolList

UNKNOWN = "its tools are not known"


def tools_result(listed: ToolList, budget: Budget, richest: Detail) -> JSONObject:
    """A server's tools; none in more detail than `richest`."""
    # A line takes at least two tokens: further tools could not be rendered anyway.
    entries = listed.entries[: budget.tokens // 2]
    states = ["" if e.is_visible else f"(disabled: {public_decider(e.verdict)})" for e in entries]
    counts = counted(len(listed.entries), "tool") if entries or not _is_missing(listed) else UNKNOWN
    head = first_fitting((f"{named(listed.server)}: {counts}", counts), budget)
    items = tool_items(entries, states, richest)
    note = left_out_note(budget.more("search_tools"), beyond=len(listed.entries) - len(entries))
    text = render_items(items, listed.notices, budget.less(head), note)
    return make_result(f"{head}\n{text}", budget, list_fields(listed))


def _is_missing(listed: ToolList) -> bool:
    """Return whether the server of the list fails or is starting."""
    about = (notice for notice in listed.notices if notice.server == listed.server)
    return any(notice.kind in ("unavailable", "loading") for notice in about)
