"""The answers of the meta-tools: a short text for the model, all fields for programs.

The text fits a budget of tokens, notices included, whatever the catalog holds. The fields go into
`_meta`, which hosts do not show to the model. Equal questions on an equal catalog give equal
bytes: the text contains no age and no time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import clean, cut, one_line
from discovery_engine.agent.budget import Budget, Item, Plan, Variant, first_fitting, plan_with_note
from discovery_engine.agent.tool_text import tag_text
from discovery_engine.catalog import Entry
from discovery_engine.engine.executor import CallPreview
from discovery_engine.errors import DiscoveryError, NotFoundError, RateLimitedError
from discovery_engine.tools.apps import meta_with_app
from discovery_engine.tools.model import Parameter, Tool, ToolKey
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_engine.view.notices import Notice
from discovery_engine.view.search_answers import OfferingHit, SearchAnswer
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import ToolList, View

if TYPE_CHECKING:
    from discovery_engine.search.ranking.relevance import Hit

ANSWER = "discovery/answer"
"""The member of `_meta` with the answer's fields."""

_NOTICES_SHARE = 3  # notices take at most a third of an answer
_MIN_NOTICES = 24  # tokens that notices may always take: enough for their counts


def make_result(text: str, budget: Budget, fields: JSONObject) -> JSONObject:
    """A successful result; the number of tokens of its text is added to `fields`."""
    return counted_result(text, budget.count(text.strip("\n")), fields)


def counted_result(text: str, tokens: int, fields: JSONObject) -> JSONObject:
    """Make a result like `make_result`, from a text whose tokens are already counted."""
    meta = {ANSWER: {**fields, "tokens": tokens}}
    return {"content": [text_content(text)], "isError": False, "_meta": meta}


def text_content(text: str) -> JSONObject:
    return {"type": "text", "text": text.strip("\n")}


def render_items(
    items: Sequence[Item], notices: Sequence[Notice], budget: Budget, note: Callable[[Plan], str]
) -> str:
    """Lines for `items`, the `note` on what was left out, and lines for `notices`.

    The notice that a better tool is hidden comes first: below the others it is read too late,
    after one of them was chosen.
    """
    allowed = notices_budget(budget) if items else budget
    hidden = [notice for notice in notices if notice.code == "TOOL_DISABLED"]
    others = [notice for notice in notices if notice.code != "TOOL_DISABLED"]
    first = notice_lines(hidden, allowed)
    last = notice_lines(others, allowed.less(*first))
    lines = plan_with_note(items, budget.less(*first, *last), note)
    return "\n".join([*first, *lines, *last])


def notices_budget(budget: Budget) -> Budget:
    tokens = max(budget.tokens // _NOTICES_SHARE, _MIN_NOTICES)
    return replace(budget, tokens=min(tokens, budget.tokens))


def left_out_note(how: str, *, beyond: int = 0) -> Callable[[Plan], str]:
    """A note such as `3 more: raise maxTokens`; `beyond` counts items that were not planned."""

    def note(plan: Plan) -> str:
        left = plan.left_out + beyond
        return f"{left} more: {how}" if left else ""

    return note


def line_variant(text: str, value: float) -> Variant:
    return Variant(one_line(text), value)


# Notices of one kind with a line of their own, and characters of each; the rest share a line.
_DETAIL = ((2, 200), (2, 100), (1, 60))
LISTER = "list_mcp_servers"
"""The meta-tool that lists the servers that notices are about."""


def notice_lines(notices: Sequence[Notice], budget: Budget, *, lister: str = LISTER) -> list[str]:
    """A line for each notice; many of one kind share a line: ten outages have one next step.

    If these do not fit, one line counts them; if that does not fit, there is none.
    """
    if not notices:
        return []
    texts = ("\n".join(_lines(notices, *detail, lister)) for detail in _DETAIL)
    text = first_fitting((*texts, _counts(notices, lister)), budget)
    return text.split("\n") if budget.fits(text) else []


def _lines(notices: Iterable[Notice], apart: int, length: int, lister: str) -> Iterator[str]:
    by_kind: dict[str, list[Notice]] = {}
    for notice in notices:
        by_kind.setdefault(notice.kind, []).append(notice)
    for kind, alike in by_kind.items():
        for notice in alike[:apart]:
            yield _note(cut(notice.message, length))
        if left := alike[apart:]:
            names = cut(", ".join(n.server or "" for n in left), length)
            yield _note(f"{len(left)} more {kind}: {names}; {lister} shows why")


def _counts(notices: Iterable[Notice], lister: str) -> str:
    counts = Counter(notice.kind for notice in notices)
    counted_kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return _note(f"{counted_kinds}; {lister} shows why")


def _note(text: str) -> str:
    return one_line(f"Note: {text}")


def search_fields(answer: SearchAnswer) -> JSONObject:
    others = {"offerings": _offering_fields(answer.offerings)} if answer.offerings else {}
    return others | {
        "decision": answer.decision.value,
        "confidence": round(answer.confidence, 4),
        "certainty": answer.certainty,
        "results": _hit_fields(answer.hits),
        "alternatives": [
            {
                "server": alternative.server,
                "tool": alternative.tool,
                "words": list(alternative.words),
                "required": list(alternative.required),
            }
            for alternative in answer.alternatives
        ],
        "nearest": _hit_fields(answer.nearest),
        "uncovered": list(map(clean, answer.uncovered)),
        "undone": list(answer.undone),
        "notices": notice_fields(answer.notices),
    }


def _offering_fields(hits: Sequence[OfferingHit]) -> list[JSONObject]:
    return [
        {
            "kind": hit.entry.offering.kind.value,
            "server": hit.entry.offering.server,
            "address": hit.address,
            "name": clean(hit.entry.offering.name),
            "summary": clean(hit.entry.offering.summary),
            "relevance": round(hit.relevance, 4),
            "tags": list(hit.entry.verdict.tags),
        }
        for hit in hits
    ]


def _hit_fields(hits: Iterable[Hit]) -> list[JSONObject]:
    return [
        {
            "server": hit.entry.tool.server,
            "tool": hit.entry.tool.name,
            "summary": clean(hit.entry.tool.summary),
            "relevance": round(hit.relevance, 4),
            "tags": list(hit.entry.verdict.tags),
        }
        for hit in hits
    ]


def server_fields(server: ServerReport) -> JSONObject:
    return {
        "name": server.name,
        "description": clean(server.description),
        "toolCount": server.tool_count,
        "enabledCount": server.enabled_count,
        "unusableCount": len(server.dropped),
        "status": server.state.value,
        "reason": one_line(server.reason),
        "tags": list(server.tags),
    }


def list_fields(listed: ToolList, most: int | None = None) -> JSONObject:
    """The tools of a server, the first `most` of them, and how many there are."""
    tools = [
        {
            "name": entry.tool.name,
            "summary": clean(entry.tool.summary),
            "enabled": entry.is_visible,
            "tags": list(entry.verdict.tags),
        }
        for entry in listed.entries[:most]
    ]
    total = len(listed.entries)
    return {"tools": tools, "total": total, "notices": notice_fields(listed.notices)}


def details_fields(entry: Entry, view: View) -> JSONObject:
    tool = entry.tool
    return {
        **({"_meta": app_meta(tool, view)} if tool.app else {}),
        "server": tool.server,
        "tool": tool.name,
        "description": clean(tool.description),
        "parameters": [_parameter_fields(parameter) for parameter in tool.parameters],
        "examples": _examples(tool),
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
        "tags": list(entry.verdict.tags),
    }


def app_meta(tool: Tool, view: View) -> JSONObject:
    """Return the `_meta` of a tool that has an app, with an address that is valid for clients."""
    page = Offering(tool.server, OfferingKind.RESOURCE, tool.app, "")
    return meta_with_app(tool.definition, view.offerings.address(page))


def notice_fields(notices: Iterable[Notice]) -> list[JSONObject]:
    return [
        {
            "code": n.code,
            "kind": n.kind,
            "message": one_line(n.message),
            **({"server": n.server} if n.server else {}),
        }
        for n in notices
    ]


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


class PoolReport(Struct, frozen=True):
    """The changes that a search made to its client's list of tools."""

    names: Mapping[ToolKey, str]
    """The names of the tools that were found and are now listed."""
    registered: tuple[str, ...]
    evicted: tuple[str, ...]
    left_out: int
    """The number of found tools that the list has no room for."""
    size: int
    """The tools that are listed now, beside the search."""
    limit: int


def with_report(result: JSONObject, report: PoolReport) -> JSONObject:
    """The rendered answer with a last line about the list of tools."""
    [content] = result["content"]
    text = f"{content['text']}\n{_line(report)}"
    fields = {
        **result["_meta"][ANSWER],
        "registered": list(report.registered),
        "evicted": list(report.evicted),
        "leftOut": report.left_out,
        "poolSize": report.size,
        "poolLimit": report.limit,
    }
    return {**result, "content": [text_content(text)], "_meta": {**result["_meta"], ANSWER: fields}}


def _line(report: PoolReport) -> str:
    size = f"{report.size} of at most {report.limit}"
    if not report.names:
        return f"Your list of tools is unchanged: {size}."
    removed = f"; removed: {', '.join(report.evicted)}" if report.evicted else ""
    missing = f"; no room for {report.left_out}" if report.left_out else ""
    return (
        f"Your list of tools now has these ({len(report.registered)} new{removed}; {size}{missing})"
        ": call them by these names."
    )


ERROR = "discovery/error"
"""The member of `_meta` with an error's fields."""

_PINNED = "(set by the owner)"
_ERROR_TOKENS = 1000
_ERROR_CUTS = (1500, 700, 300)  # characters of a message, and of a hint
_REASON = 120  # characters


def unchecked_result(result: JSONObject, reason: str) -> JSONObject:
    """A tool's own result with a note that its arguments were sent unchecked."""
    text = f"Note: the arguments were not checked: {cut(clean(reason), _REASON)}"
    return {
        **result,
        "content": [*result["content"], text_content(text)],
        "_meta": {**result.get("_meta", {}), ANSWER: {"unchecked": reason}},
    }


def result_text(result: JSONObject) -> str:
    """The texts of a result, one below the other."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def preview_result(preview: CallPreview) -> JSONObject:
    """Show what a call would send; of the values that the owner adds, only the names."""
    tool = preview.entry.tool
    pinned = dict.fromkeys(preview.pinned, _PINNED)
    # The owner's own values win, as in a call.
    arguments = json.dumps({**preview.arguments, **pinned}, ensure_ascii=False)
    hints = {name: value for name, value in tool.annotations.items() if name.endswith("Hint")}
    lines = [
        f"Dry run: {tool.key.label} is enabled and its arguments fit; nothing was sent.",
        f"To: {preview.place}",
        f"Arguments: {arguments}",
        f"Annotations: {json.dumps(hints)}" if hints else "",
        f"Tags: {tag_text(preview.entry.verdict.tags)}" if preview.entry.verdict.tags else "",
        f"Note: the arguments were not checked: {preview.unchecked}" if preview.unchecked else "",
    ]
    fields: JSONObject = {
        "dryRun": True,
        "server": tool.server,
        "tool": tool.name,
        "to": preview.place,
        "arguments": preview.arguments,
        "pinned": list(preview.pinned),
        "annotations": tool.annotations,
        "tags": list(preview.entry.verdict.tags),
        **({"unchecked": preview.unchecked} if preview.unchecked else {}),
    }
    text = "\n".join(one_line(line) for line in lines if line)
    return {"content": [text_content(text)], "isError": False, "_meta": {ANSWER: fields}}


def error_result(
    error: DiscoveryError, notices: Sequence[Notice] = (), *, lister: str = LISTER
) -> JSONObject:
    """An error as a result that the model reads: a stable code, what happened, what to do.

    `lister` is what shows the servers that the notices are about.
    """
    budget = Budget(_ERROR_TOKENS)
    notes = notice_lines(notices, notices_budget(budget), lister=lister)
    texts = (
        "\n".join(filter(None, (f"{error.code}: {message}", hint)))
        for message, hint in _variants(error)
    )
    fields: JSONObject = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    for name in ("server", "tool"):
        if value := getattr(error, name, None):
            fields[name] = value
    if isinstance(error, RateLimitedError):
        fields["retryAfter"] = error.retry_after
    if isinstance(error, NotFoundError):
        fields["nearest"] = list(error.nearest)
    text = "\n".join([first_fitting(texts, budget.less(*notes)), *notes])
    return {"content": [text_content(text)], "isError": True, "_meta": {ERROR: fields}}


def _variants(error: DiscoveryError) -> Iterator[tuple[str, str]]:
    """Message and hint, whole first, then ever shorter; parts may be text of an upstream."""
    yield error.message, error.hint
    for length in _ERROR_CUTS:
        yield cut(error.message, length), cut(error.hint, length)
