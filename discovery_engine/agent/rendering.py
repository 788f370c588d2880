"""The answers of the meta-tools: few words for the model, all fields for programs.

The text is what a model reads, so it fits a budget of tokens, notices and all, whatever the
catalog holds. The fields go into `_meta`, which hosts keep from the model. Equal questions on an
equal catalog give equal bytes: no age and no time stands in the text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import block, clean, named, one_line, quoted
from discovery_engine.agent.budget import (
    Budget,
    Form,
    Item,
    Plan,
    first_fitting,
    plan_noting,
    shares,
)
from discovery_engine.agent.no_match import match_item, nothing_items
from discovery_engine.agent.notice_text import noted
from discovery_engine.agent.structured import (
    details_fields,
    list_fields,
    notice_fields,
    search_fields,
    server_fields,
)
from discovery_engine.agent.tool_text import (
    Detail,
    argument_line,
    cut,
    hit_items,
    tag_text,
    tool_items,
)
from discovery_engine.catalog import Entry
from discovery_engine.errors import DiscoveryError, NotFoundError
from discovery_engine.rules.explanation import public_decider
from discovery_engine.tools.model import Parameter, Tool
from discovery_engine.tools.signature import parameter_line, typed
from discovery_engine.view.notices import Notice, NoticeKind
from discovery_engine.view.search_answers import Decision, SearchAnswer
from discovery_engine.view.status import ServerStatus, ServerSummary
from discovery_engine.view.view import ToolList

ANSWER = "discovery/answer"
"""The member of `_meta` with the answer's fields."""
ERROR = "discovery/error"
"""The member of `_meta` with an error's fields."""

LEAST_TOKENS = 50
"""The smallest budget: room for what is left out, what cannot be spoken for, and a name."""

_NOTES_SHARE = 3  # a third of an answer is the most that notices take from what was asked for
_LEAST_NOTES = 24  # tokens that notices may always take: their counts
_LEAST_BLOCK = 25  # tokens of one query's answer; with less it could say nothing
_ERROR_TOKENS = 1000
_ERROR_CUTS = (1500, 700, 300)  # characters of a message, and of a hint
_ABOUT = 120  # characters of what a server is for, or of an argument's description
_DESCRIPTION = ((120, 0.6), (500, 0.8))  # characters of a description, and how far that gets one
_OPTIONAL = 0.3  # how often an optional argument is needed, beside a required one
_RAISE = "raise maxTokens"
_QUERY = (60, 20)  # characters of a query that is repeated above its answer

_HEADS = (NoticeKind.NO_MATCH, NoticeKind.INCOMPLETE, NoticeKind.UNKNOWN, NoticeKind.EMPTY)
"""What they say is what an answer without a hit begins with."""

_UNREMARKABLE = frozenset({ServerStatus.READY, ServerStatus.IDLE})
"""Both mean that a call works; telling them apart would change an answer for no reader."""


def search_result(answer: SearchAnswer, budget: Budget, richest: Detail) -> JSONObject:
    """The hits of one query; none is told in more detail than `richest`."""
    text = _found(answer, answer.notices, budget, richest)
    return _result(text, budget, search_fields(answer))


def searches_result(answers: Sequence[SearchAnswer], budget: Budget, richest: Detail) -> JSONObject:
    """The hits of several queries, each below its query; what several notices say is said once."""
    common = list(dict.fromkeys(n for answer in answers for n in answer.notices if n.server))
    notes = noted(common, _notes_budget(budget))
    rest = budget.less(*notes)
    kept = _fitting(len(answers), rest)
    left = [_more_queries(len(answers) - kept)] if kept < len(answers) else []
    blocks = _blocks(answers[:kept], rest.less(*left), richest)
    fields = [{"query": clean(answer.query), **search_fields(answer)} for answer in answers]
    return _result("\n".join([*blocks, *left, *notes]), budget, {"answers": fields})


def servers_result(
    servers: Sequence[ServerSummary], budget: Budget, notices: Sequence[Notice] = ()
) -> JSONObject:
    fields: JSONObject = {"servers": [server_fields(server) for server in servers]}
    fields |= {"notices": notice_fields(notices)} if notices else {}
    if not servers:
        lines = noted(notices, _notes_budget(budget)) or ["No MCP server is configured."]
        text = "\n".join(lines)
        return _result(text, budget, fields)
    items = [_server_item(server) for server in servers]
    text = _told(items, notices, budget, _and_more("search_tools finds their tools"))
    return _result(text, budget, fields)


def tools_result(listed: ToolList, budget: Budget, richest: Detail) -> JSONObject:
    """A server's tools; none is told in more detail than `richest`."""
    # A line takes two tokens at the least, so none is made for a tool that could not be told.
    entries = listed.entries[: budget.tokens // 2]
    states = ["" if e.is_visible else f"(disabled: {public_decider(e.verdict)})" for e in entries]
    counts = counted(len(listed.entries), "tool")
    head = first_fitting((f"{named(listed.server)}: {counts}", counts), budget)
    items = tool_items(entries, states, richest)
    note = _and_more("raise maxTokens, or search_tools", beyond=len(listed.entries) - len(entries))
    text = _told(items, listed.notices, budget.less(head), note)
    return _result(f"{head}\n{text}", budget, list_fields(listed))


def details_result(entry: Entry, budget: Budget) -> JSONObject:
    tool = entry.tool
    marks = dict.fromkeys([*_effects(tool), *entry.verdict.tags])
    key = tool.key.label
    heads = (f"{key} {tag_text(list(marks))}", key) if marks else (key,)
    arguments = [_argument_item(parameter, tool) for parameter in tool.parameters]
    items = [
        Item(len(tool.parameters) + 2, tuple(_form(head, 1.0) for head in reversed(heads))),
        *_description_items(tool.description.strip()),
        *(arguments or [Item(1.0, (Form("It takes no arguments.", 1.0),))]),
    ]
    lines = plan_noting(items, budget, _cut_to_fit)
    return _result("\n".join(lines), budget, details_fields(entry))


def unchecked_result(result: JSONObject, reason: str) -> JSONObject:
    """A tool's own result, behind which stands that its arguments were sent unchecked."""
    text = f"Note: the arguments were not checked: {cut(clean(reason), _ABOUT)}"
    content = result.get("content")
    meta = result.get("_meta")
    return {
        **result,
        "content": [*(content if isinstance(content, list) else ()), _text(text)],
        "_meta": {**(meta if isinstance(meta, dict) else {}), ANSWER: {"unchecked": reason}},
    }


def error_result(error: DiscoveryError, notices: Sequence[Notice] = ()) -> JSONObject:
    """An error as a result that the model reads: a stable code, what happened, what to do."""
    budget = Budget(_ERROR_TOKENS)
    notes = noted(notices, _notes_budget(budget))
    texts = (
        "\n".join(filter(None, (f"{error.code}: {message}", hint)))
        for message, hint in _tellings(error)
    )
    fields: JSONObject = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    for name in ("server", "tool"):
        if value := getattr(error, name, None):
            fields[name] = value
    if isinstance(error, NotFoundError):
        fields["nearest"] = list(error.nearest)
    text = "\n".join([first_fitting(texts, budget.less(*notes)), *notes])
    return {"content": [_text(text)], "isError": True, "_meta": {ERROR: fields}}


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _found(answer: SearchAnswer, notices: Sequence[Notice], budget: Budget, richest: Detail) -> str:
    """The hits of one query, or that there are none and what comes nearest."""
    if answer.decision is Decision.NONE:
        others = [notice for notice in notices if notice.kind not in _HEADS]
        return _told(nothing_items(answer), others, budget, _as_is)
    items = [match_item(answer), *hit_items(answer.hits, richest)]
    return _told(items, notices, budget, _and_more(_RAISE))


def _told(
    items: Sequence[Item], notices: Sequence[Notice], budget: Budget, note: Callable[[Plan], str]
) -> str:
    """Items, what is left out of them and how to get it, and what cannot be spoken for.

    That a better tool is hidden comes first: whoever reads the others first takes one of them.
    """
    room = _notes_budget(budget) if items else budget
    first = noted([notice for notice in notices if notice.kind is NoticeKind.HIDDEN], room)
    notes = noted(
        [notice for notice in notices if notice.kind is not NoticeKind.HIDDEN], room.less(*first)
    )
    lines = plan_noting(items, budget.less(*first, *notes), note)
    return "\n".join([*first, *lines, *notes])


def _notes_budget(budget: Budget) -> Budget:
    tokens = max(budget.tokens // _NOTES_SHARE, _LEAST_NOTES)
    return replace(budget, tokens=min(tokens, budget.tokens))


def _fitting(queries: int, budget: Budget) -> int:
    """How many queries can be answered; where not all, one line says how many are left."""
    if queries * _LEAST_BLOCK <= budget.tokens:
        return queries
    return max(1, budget.less(_more_queries(queries)).tokens // _LEAST_BLOCK)


def _more_queries(count: int) -> str:
    return f"{count} more {'query' if count == 1 else 'queries'}: {_RAISE}"


def _blocks(answers: Sequence[SearchAnswer], budget: Budget, richest: Detail) -> list[str]:
    """One text for each answer; what one of them does not need is for the others."""
    endless = replace(budget, tokens=sys.maxsize)
    whole = [_block(answer, endless, richest).split("\n") for answer in answers]
    needs = [sum(map(budget.price, lines)) for lines in whole]
    parts = shares(budget.tokens, needs)
    return [
        _block(answer, replace(budget, tokens=part), richest)
        for answer, part in zip(answers, parts, strict=True)
    ]


def _block(answer: SearchAnswer, budget: Budget, richest: Detail) -> str:
    heads = (f"{quoted(cut(answer.query, length))}:" for length in _QUERY)
    half = replace(budget, tokens=budget.tokens // 2)
    head = first_fitting((*heads, "…:"), half)
    own = [notice for notice in answer.notices if not notice.server]
    text = _found(answer, own, budget.less(head), richest)
    return f"{head}\n{text}" if text else head


def _and_more(how: str, *, beyond: int = 0) -> Callable[[Plan], str]:
    """Says how many items are left out, and `beyond` that were not planned for; and what to do."""

    def note(made: Plan) -> str:
        left = made.left_out + beyond
        return f"{left} more: {how}" if left else ""

    return note


def _as_is(_: Plan) -> str:
    return ""


def _cut_to_fit(made: Plan) -> str:
    left = f" ({made.left_out} left out)" if made.left_out else ""
    return "" if made.is_whole else f"Cut to fit{left}: raise maxTokens"


def _server_item(server: ServerSummary) -> Item:
    off = server.tool_count - server.enabled_count
    count = counted(server.enabled_count, "tool") + (f", {off} disabled" if off else "")
    state = reason = ""
    status = _lasting_status(server)
    if is_remarkable := status not in _UNREMARKABLE:
        state = f" {status.value}"
        reason = f": {server.reason}" if server.reason else ""
        reason += f" ({server.hint})" if server.hint else ""
    name, tags = named(server.name), f" {tag_text(server.tags)}" if server.tags else ""
    about = f" - {cut(server.description, _ABOUT)}" if server.description else ""
    forms = (
        _form(f"{name}{state}", 0.5),
        _form(f"{name} ({count}){state}", 0.7),
        _form(f"{name} ({count}){state}{cut(reason, _ABOUT)}", 0.9),
        _form(f"{name} ({count}){state}{reason}{about}{tags}", 1.0),
    )
    return Item(2.0 if is_remarkable else 1.0, forms)


def _lasting_status(server: ServerSummary) -> ServerStatus:
    """The status, but for what it is only while a server is asked: an answer must not vary by it.

    A host keeps its prompt cache as long as the bytes of an answer stay the same.
    """
    if server.status not in (ServerStatus.STARTING, ServerStatus.PENDING):
        return server.status
    return ServerStatus.STARTING if server.listed_at is None else ServerStatus.IDLE


def _description_items(description: str) -> list[Item]:
    if not description:
        return []
    cuts = [(cut(description, length), value) for length, value in _DESCRIPTION]
    texts = [("\n".join(block(text)), value) for text, value in (*cuts, (description, 1.0))]
    return [Item(1.0, tuple(Form(text, value) for text, value in texts))]


def _argument_item(parameter: Parameter, tool: Tool) -> Item:
    mark = "" if parameter.required else "?"
    forms = (
        _form(f"{named(parameter.name)}{mark}", 0.4),
        _form(typed(parameter, tool), 0.7),
        Form(argument_line(parameter, tool, _ABOUT), 0.9),
        _form(parameter_line(parameter, tool), 1.0),
    )
    return Item(1.0 if parameter.required else _OPTIONAL, forms)


def _effects(tool: Tool) -> list[str]:
    """What the tool's own annotations claim about its effects."""
    claims = (("readOnlyHint", "read-only"), ("destructiveHint", "destructive"))
    return [word for hint, word in claims if tool.annotations.get(hint) is True]


def _tellings(error: DiscoveryError) -> Iterator[tuple[str, str]]:
    """Message and hint, the whole first, then cut; an upstream may have had its word in them."""
    yield error.message, error.hint
    for length in _ERROR_CUTS:
        yield cut(error.message, length), cut(error.hint, length)


def _form(text: str, value: float) -> Form:
    return Form(one_line(text), value)


def _result(text: str, budget: Budget, fields: JSONObject) -> JSONObject:
    told = _text(text)
    fields = {**fields, "tokens": budget.count(told["text"])}
    return {"content": [told], "isError": False, "_meta": {ANSWER: fields}}


def _text(text: str) -> JSONObject:
    return {"type": "text", "text": text.strip("\n")}
