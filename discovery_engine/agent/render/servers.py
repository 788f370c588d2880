"""The answer of `list_mcp_servers`.

With many servers most of them are as they were when the list was last requested. So the last
answer is kept, and of the next one only the servers that changed are rendered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named
from discovery_engine.agent.budget import Budget, Item
from discovery_engine.agent.render.notice_text import notice_lines
from discovery_engine.agent.render.result import (
    counted_result,
    left_out_note,
    line_variant,
    make_result,
    notices_budget,
    render_items,
)
from discovery_engine.agent.structured import notice_fields, server_fields
from discovery_engine.agent.tool_text import cut, tag_text
from discovery_engine.upstream.state import ServerState
from discovery_engine.view.notices import Notice
from discovery_engine.view.status import ServerReport

_ABOUT = 120  # characters of a server's description, or of the reason for its state

_CALLABLE = frozenset({ServerState.READY, ServerState.IDLE})
"""In both a call works: naming one of them would only change the bytes of the answer."""


class _Summary(Struct, frozen=True):
    report: ServerReport
    fields: JSONObject
    item: Item


class _Answer(Struct, frozen=True):
    """The last answer, and what it was made from."""

    servers: Sequence[ServerReport] = ()
    summaries: tuple[_Summary, ...] = ()
    budget: Budget | None = None
    notices: tuple[Notice, ...] = ()
    text: str = ""
    tokens: int = 0


class _LastAnswer:
    """Replaced as a whole, so that it may be read from any thread."""

    answer = _Answer()


def servers_result(
    servers: Sequence[ServerReport], budget: Budget, notices: Sequence[Notice] = ()
) -> JSONObject:
    noted: JSONObject = {"notices": notice_fields(notices)} if notices else {}
    if not servers:
        lines = notice_lines(notices, notices_budget(budget)) or ["No MCP server is configured."]
        return make_result("\n".join(lines), budget, {"servers": [], **noted})
    answer = _LastAnswer.answer = _rendered(servers, budget, notices, _LastAnswer.answer)
    fields = [summary.fields for summary in answer.summaries]
    return counted_result(answer.text, answer.tokens, {"servers": fields, **noted})


def _rendered(
    servers: Sequence[ServerReport], budget: Budget, notices: Sequence[Notice], last: _Answer
) -> _Answer:
    is_same = (budget, tuple(notices)) == (last.budget, last.notices)
    if is_same and servers is last.servers:
        return last
    summaries = tuple(
        summary
        if summary and (summary.report is report or summary.report == report)
        else _summary(report)
        for report, summary in zip_longest(servers, last.summaries[: len(servers)])
    )
    items = [summary.item for summary in summaries]
    if is_same and items == [summary.item for summary in last.summaries]:
        text, tokens = last.text, last.tokens
    else:
        note = left_out_note("search_tools finds their tools")
        text = render_items(items, notices, budget, note).strip("\n")
        tokens = budget.count(text)
    return _Answer(servers, summaries, budget, tuple(notices), text, tokens)


def _summary(report: ServerReport) -> _Summary:
    return _Summary(report, server_fields(report), _server_item(report))


def _server_item(server: ServerReport) -> Item:
    off = server.tool_count - server.enabled_count
    unusable = len(server.dropped)
    count = counted(server.enabled_count, "tool") + (f", {off} disabled" if off else "")
    count += f", {unusable} unusable" if unusable else ""
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
