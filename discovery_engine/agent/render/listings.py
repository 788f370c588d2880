"""The answers of `list_mcp_servers` and `list_tools`."""

from __future__ import annotations

from collections.abc import Sequence

from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named
from discovery_engine.agent.budget import Budget, Item, first_fitting
from discovery_engine.agent.render.notices import notice_lines
from discovery_engine.agent.render.result import (
    left_out_note,
    line_variant,
    make_result,
    notices_budget,
    render_items,
)
from discovery_engine.agent.structured import list_fields, notice_fields, server_fields
from discovery_engine.agent.tool_text import Detail, cut, tag_text, tool_items
from discovery_engine.rules.rule_explanation import public_decider
from discovery_engine.upstream.state import ServerState
from discovery_engine.view.notices import Notice
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import ToolList

_ABOUT = 120  # characters of a server's description, or of the reason for its state

_CALLABLE = frozenset({ServerState.READY, ServerState.IDLE})
"""In both a call works: naming one of them would only change the bytes of the answer."""


def servers_result(
    servers: Sequence[ServerReport], budget: Budget, notices: Sequence[Notice] = ()
) -> JSONObject:
    fields: JSONObject = {"servers": [server_fields(server) for server in servers]}
    fields |= {"notices": notice_fields(notices)} if notices else {}
    if not servers:
        lines = notice_lines(notices, notices_budget(budget)) or ["No MCP server is configured."]
        text = "\n".join(lines)
        return make_result(text, budget, fields)
    items = [_server_item(server) for server in servers]
    text = render_items(items, notices, budget, left_out_note("search_tools finds their tools"))
    return make_result(text, budget, fields)


def tools_result(listed: ToolList, budget: Budget, richest: Detail) -> JSONObject:
    """A server's tools; none in more detail than `richest`."""
    # A line takes at least two tokens: further tools could not be rendered anyway.
    entries = listed.entries[: budget.tokens // 2]
    states = ["" if e.is_visible else f"(disabled: {public_decider(e.verdict)})" for e in entries]
    counts = counted(len(listed.entries), "tool")
    head = first_fitting((f"{named(listed.server)}: {counts}", counts), budget)
    items = tool_items(entries, states, richest)
    note = left_out_note(
        "raise maxTokens, or search_tools", beyond=len(listed.entries) - len(entries)
    )
    text = render_items(items, listed.notices, budget.less(head), note)
    return make_result(f"{head}\n{text}", budget, list_fields(listed))


def _server_item(server: ServerReport) -> Item:
    off = server.tool_count - server.enabled_count
    count = counted(server.enabled_count, "tool") + (f", {off} disabled" if off else "")
    state = reason = ""
    status = _lasting_status(server)
    if is_notable := status not in _CALLABLE:
        state = f" {status.value}"
        reason = f": {server.reason}" if server.reason else ""
        reason += f" ({server.hint})" if server.hint else ""
    name, tags = named(server.name), f" {tag_text(server.tags)}" if server.tags else ""
    about = f" - {cut(server.description, _ABOUT)}" if server.description else ""
    variants = (
        line_variant(f"{name}{state}", 0.5),
        line_variant(f"{name} ({count}){state}", 0.7),
        line_variant(f"{name} ({count}){state}{cut(reason, _ABOUT)}", 0.9),
        line_variant(f"{name} ({count}){state}{reason}{about}{tags}", 1.0),
    )
    return Item(2.0 if is_notable else 1.0, variants)


def _lasting_status(server: ServerReport) -> ServerState:
    """The status without passing states of a known server.

    A host keeps its prompt cache as long as the bytes of an answer stay the same.
    """
    if server.state not in (ServerState.STARTING, ServerState.PENDING):
        return server.state
    return ServerState.STARTING if server.listed_at is None else ServerState.IDLE
