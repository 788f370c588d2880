"""The answers of the meta-tools: few words for the model, all fields for programs.

The text is what a model reads, so it is short: one line for a hit, and as much of each line as
the budget of the whole allows. The fields go into `_meta`, which hosts keep from the model. Equal
questions on an equal catalog give equal bytes: nothing in the text ticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discovery_engine.catalog import Entry
from discovery_engine.errors import DiscoveryError, NotFoundError
from discovery_engine.notices import Notice, NoticeKind
from discovery_engine.signature import parameter_line
from discovery_engine.text import clean
from discovery_engine.tools import JSONObject, Parameter, Tool
from discovery_engine.view import (
    SearchAnswer,
    ServerStatus,
    ServerSummary,
    ToolList,
    View,
    is_visible,
)

ANSWER = "discovery/answer"
"""The member of `_meta` with the answer's fields."""
ERROR = "discovery/error"
"""The member of `_meta` with an error's fields."""

_SEARCH_TOKENS = 170
_LIST_TOKENS = 1200
_CHARACTERS = 3.6  # in a token of such lines: names and signatures take more tokens than prose

# What a line tells: optional arguments, characters of the summary. The poorest first.
_DETAIL = ((0, 0), (0, 40), (2, 60), (4, 80), (99, 120))

_NOTICES = 2  # of one kind, told apart; the rest are named together
_NOTICE_LENGTH = 200  # characters

_UNREMARKABLE = frozenset({ServerStatus.READY, ServerStatus.IDLE})
"""Both mean that a call works; telling them apart would change an answer for no reader."""


def estimated_tokens(text: str) -> int:
    return round(len(text) / _CHARACTERS)


def search_result(answer: SearchAnswer) -> JSONObject:
    entries = [hit.entry for hit in answer.hits]
    rounds = [[_tool_line(str(e.key), e, *detail) for e in entries] for detail in _DETAIL]
    results = [
        {
            "server": hit.entry.tool.server,
            "tool": hit.entry.tool.name,
            "summary": clean(hit.entry.tool.summary),
            "relevance": round(hit.relevance, 4),
            "tags": list(hit.entry.verdict.tags),
        }
        for hit in answer.hits
    ]
    lines = [*_best_first(rounds, _SEARCH_TOKENS), *_notice_lines(answer.notices)]
    return _result(lines, results=results, notices=answer.notices)


def servers_result(servers: Sequence[ServerSummary]) -> JSONObject:
    lines = [_server_line(server) for server in servers] or ["No MCP server is configured."]
    fields = [
        {
            "name": server.name,
            "description": clean(server.description),
            "toolCount": server.tool_count,
            "enabledCount": server.enabled_count,
            "status": server.status.value,
            "reason": clean(server.reason),
            "tags": list(server.tags),
        }
        for server in servers
    ]
    return _result(lines, servers=fields)


def tools_result(listed: ToolList, view: View) -> JSONObject:
    def line(entry: Entry, optional: int, length: int) -> str:
        told = _tool_line(entry.tool.name, entry, optional, length)
        return told if is_visible(entry) else f"{told} (disabled: {view.reason(entry)})"

    count = f"{listed.server}: {counted(len(listed.entries), 'tool')}"
    texts = ("\n".join(line(e, *detail) for e in listed.entries) for detail in reversed(_DETAIL))
    lines = [count, fit(texts, _LIST_TOKENS), *_notice_lines(listed.notices)]
    tools = [
        {
            "name": entry.tool.name,
            "summary": clean(entry.tool.summary),
            "enabled": is_visible(entry),
            "tags": list(entry.verdict.tags),
        }
        for entry in listed.entries
    ]
    return _result(lines, tools=tools, notices=listed.notices)


def details_result(entry: Entry) -> JSONObject:
    tool = entry.tool
    marks = [*_effects(tool), *entry.verdict.tags]
    head = str(tool.key) + (f" [{', '.join(marks)}]" if marks else "")
    lines = [clean(head, newlines=False), tool.description.strip()]
    lines += [clean(parameter_line(p, tool), newlines=False) for p in tool.parameters]
    return _result(
        lines if tool.parameters else [*lines, "It takes no arguments."],
        server=tool.server,
        tool=tool.name,
        description=clean(tool.description),
        parameters=[_parameter_fields(p) for p in tool.parameters],
        examples=_examples(tool),
        inputSchema=tool.input_schema,
        annotations=tool.annotations,
        tags=list(entry.verdict.tags),
    )


def error_result(error: DiscoveryError, notices: Sequence[Notice] = ()) -> JSONObject:
    """An error as a result that the model reads: a stable code, what happened, what to do."""
    lines = [f"{error.code}: {error.message}", error.hint, *_notice_lines(notices)]
    fields: JSONObject = {
        "code": error.code,
        "message": clean(error.message),
        "hint": clean(error.hint),
    }
    for name in ("server", "tool"):
        if value := getattr(error, name, None):
            fields[name] = value
    if isinstance(error, NotFoundError):
        fields["nearest"] = list(error.nearest)
    return {"content": [_text(lines)], "isError": True, "_meta": {ERROR: fields}}


def notice_fields(notices: Iterable[Notice]) -> list[JSONObject]:
    return [
        {
            "kind": n.kind.value,
            "message": clean(n.message),
            **({"server": n.server} if n.server else {}),
        }
        for n in notices
    ]


def fit(texts: Iterable[str], tokens: float) -> str:
    """The first of `texts`, given the richest first, that takes at most so many; else the last."""
    text = ""
    for text in texts:
        if estimated_tokens(text) <= tokens:
            break
    return text


def _best_first(rounds: Sequence[list[str]], tokens: float) -> list[str]:
    """The poorest lines, made richer round by round from the top, until the budget is spent."""
    lines = list(rounds[0])
    spare = tokens * _CHARACTERS - len("\n".join(lines))
    for richer in rounds[1:]:
        for place, line in enumerate(richer):
            spare -= len(line) - len(lines[place])
            if spare < 0:
                return lines
            lines[place] = line
    return lines


def _tool_line(name: str, entry: Entry, optional: int, length: int) -> str:
    summary = cut(entry.tool.summary, length)
    told = f" - {summary}" if summary else ""
    tags = f" [{', '.join(entry.verdict.tags)}]" if entry.verdict.tags else ""
    return clean(f"{name}({_argument_names(entry.tool, optional)}){told}{tags}", newlines=False)


def _argument_names(tool: Tool, optional: int) -> str:
    """All that are required, then some that are not."""
    required = [p.name for p in tool.parameters if p.required]
    others = [f"{p.name}?" for p in tool.parameters if not p.required]
    left = ["…"] if len(others) > optional else []
    return ", ".join([*required, *others[:optional], *left])


def _server_line(server: ServerSummary) -> str:
    off = server.tool_count - server.enabled_count
    count = counted(server.enabled_count, "tool") + (f", {off} disabled" if off else "")
    told = f"{server.name} ({count})"
    if server.status not in _UNREMARKABLE:
        told += f" {server.status.value}" + (f": {server.reason}" if server.reason else "")
        told += f" ({server.hint})" if server.hint else ""
    tags = f" [{', '.join(server.tags)}]" if server.tags else ""
    about = f" - {cut(server.description, _DETAIL[-1][1])}" if server.description else ""
    return clean(told + about + tags, newlines=False)


def _effects(tool: Tool) -> list[str]:
    """What the tool's own annotations claim about its effects."""
    claims = (("readOnlyHint", "read-only"), ("destructiveHint", "destructive"))
    return [word for hint, word in claims if tool.annotations.get(hint) is True]


def _parameter_fields(parameter: Parameter) -> JSONObject:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "description": clean(parameter.description),
        "required": parameter.required,
    }


def _examples(tool: Tool) -> list[JSONObject]:
    examples = tool.input_schema.get("examples")
    return [e for e in examples if isinstance(e, dict)] if isinstance(examples, list) else []


def _notice_lines(notices: Iterable[Notice]) -> list[str]:
    """A line for each notice; many of one kind share a line, as ten outages have one next step."""
    by_kind: dict[NoticeKind, list[Notice]] = {}
    for notice in notices:
        by_kind.setdefault(notice.kind, []).append(notice)
    lines: list[str] = []
    for kind, alike in by_kind.items():
        lines += [cut(notice.message, _NOTICE_LENGTH) for notice in alike[:_NOTICES]]
        if left := alike[_NOTICES:]:
            names = cut(", ".join(n.server or "" for n in left), _NOTICE_LENGTH)
            lines.append(f"{len(left)} more {kind.value}: {names}; list_mcp_servers tells why")
    return [clean(f"Note: {line}", newlines=False) for line in lines]


def _result(lines: Iterable[str], **fields: object) -> JSONObject:
    if "notices" in fields:
        fields["notices"] = notice_fields(fields["notices"])  # type: ignore[arg-type]
    return {"content": [_text(lines)], "isError": False, "_meta": {ANSWER: fields}}


def _text(lines: Iterable[str]) -> JSONObject:
    return {"type": "text", "text": clean("\n".join(filter(None, lines)))}


def cut(text: str, length: int) -> str:
    """At most `length` characters, cut at a word, with a mark where something is missing."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    return f"{text[:length].rsplit(' ', 1)[0].rstrip('.,;:')}…" if length else ""


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
