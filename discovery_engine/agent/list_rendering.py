"""The answers of `list_mcp_servers`, `list_tools` and `get_tool_details`.

With many servers most of them are as they were when the list was last requested. So the last
answer is kept, and of the next one only the servers that changed are rendered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from sys import getsizeof
from threading import Lock

from cachetools import LRUCache, cached
from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import block, cut, named
from discovery_engine.agent.answer_rendering import (
    counted_result,
    details_fields,
    left_out_note,
    line_variant,
    list_fields,
    make_result,
    notice_fields,
    notice_lines,
    notices_budget,
    render_items,
    server_fields,
)
from discovery_engine.agent.budget import Budget, Item, Plan, Variant, first_fitting, plan_with_note
from discovery_engine.agent.tool_text import Detail, argument_line, tag_text, tool_items
from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.rules.rule import public_decider
from discovery_engine.tools.model import Parameter, Tool
from discovery_engine.tools.signature import choice_text, parameter_line, typed
from discovery_engine.upstream.state import ServerState
from discovery_engine.view.notices import Notice
from discovery_engine.view.offering_addresses import skill_address
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import ToolList, View

_ABOUT = 120  # characters of a server's description, or of the reason for its state

_CALLABLE = frozenset({ServerState.READY, ServerState.IDLE})
"""States in which a call works: to name them would only change the bytes of the answer."""


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
        else _Summary(report, server_fields(report), _server_item(report))
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


def _server_item(server: ServerReport) -> Item:
    off = server.tool_count - server.enabled_count
    unusable = len(server.dropped)
    count = counted(server.enabled_count, "tool") + (f", {off} disabled" if off else "")
    count += f", {unusable} unusable" if unusable else ""
    count += f", {counted(server.skill_count, 'skill')}" if server.skill_count else ""
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
    return make_result(f"{head}\n{text}", budget, list_fields(listed, len(entries)))


def _is_missing(listed: ToolList) -> bool:
    """Return whether the server of the list fails or is starting."""
    about = (notice for notice in listed.notices if notice.server == listed.server)
    return any(notice.kind in ("unavailable", "loading") for notice in about)


_ABOUT = 120  # characters of a shortened description of an argument
_DESCRIPTION = ((120, 0.6), (500, 0.8))  # characters of a description, and the value of so many
_OPTIONAL = 0.3  # weight of an optional argument; a required one has 1
_UNDESCRIBED = "It may take arguments; its server does not describe them."


_CACHED = 4_000_000  # bytes of items of the tools that were looked at last
_OVERHEAD = 400  # bytes of a variant beside its text


def details_result(entry: Entry, view: View, budget: Budget) -> JSONObject:
    items, _ = _items(entry)
    lines = plan_with_note(items, budget, partial(_cut_to_fit, budget))
    return make_result("\n".join(lines), budget, details_fields(entry, view))


def skill_result(entry: OfferingEntry, view: View, budget: Budget) -> JSONObject:
    """Return the text of a skill, marked as its server's, and the addresses of its other files.

    It is whole, whatever the budget: half of an instruction misleads.
    """
    skill = entry.offering
    head = f"Skill {skill.name!r}, written by the server {skill.server}:"
    files = [skill_address(skill.server, uri) for uri in skill.files if uri != skill.identifier]
    text = "\n".join([head, *block(skill.text), *(f"file: {file}" for file in files)])
    fields = {"skill": view.offerings.address(skill), "server": skill.server, "files": files}
    return make_result(text, budget, fields)


@cached(LRUCache(_CACHED, getsizeof=itemgetter(1)), lock=Lock())
def _items(entry: Entry) -> tuple[tuple[Item, ...], int]:
    """The items of a tool, and about how many bytes are kept for them."""
    tool = entry.tool
    marks = dict.fromkeys([*_effects(tool), *entry.verdict.tags])
    key = tool.key.label
    heads = (f"{key} {tag_text(list(marks))}", key) if marks else (key,)
    arguments = [_argument_item(parameter, tool) for parameter in tool.parameters]
    if not arguments:
        arguments = [_line_item(_UNDESCRIBED if tool.takes_unnamed else "It takes no arguments.")]
    items = (
        Item(len(arguments) + 2, tuple(line_variant(head, 1.0) for head in reversed(heads))),
        *_description_items(tool.description.strip()),
        *(_line_item(f"Needed: {choice_text(choice)}") for choice in tool.choices),
        *arguments,
    )
    texts = [variant.text for item in items for variant in item.variants]
    return items, getsizeof(tool.source) + sum(_OVERHEAD + getsizeof(text) for text in texts)


def _line_item(text: str) -> Item:
    return Item(1.0, (line_variant(text, 1.0),))


def _description_items(description: str) -> list[Item]:
    if not description:
        return []
    cuts = [(cut(description, length), value) for length, value in _DESCRIPTION]
    texts = [("\n".join(block(text)), value) for text, value in (*cuts, (description, 1.0))]
    return [Item(1.0, tuple(Variant(text, value) for text, value in texts))]


def _argument_item(parameter: Parameter, tool: Tool) -> Item:
    mark = "" if parameter.required else "?"
    variants = (
        line_variant(f"{named(parameter.name)}{mark}", 0.4),
        line_variant(typed(parameter, tool), 0.7),
        Variant(argument_line(parameter, tool, _ABOUT), 0.9),
        line_variant(parameter_line(parameter, tool), 1.0),
    )
    return Item(1.0 if parameter.required else _OPTIONAL, variants)


def _effects(tool: Tool) -> list[str]:
    """The effects that the tool's own annotations claim."""
    claims = (("readOnlyHint", "read-only"), ("destructiveHint", "destructive"))
    return [word for hint, word in claims if tool.annotations.get(hint) is True]


def _cut_to_fit(budget: Budget, plan: Plan) -> str:
    left = f" ({plan.left_out} left out)" if plan.left_out else ""
    return "" if plan.is_whole else f"Cut to fit{left}: {budget.more()}"
