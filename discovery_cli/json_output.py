"""JSON output of the commands: keys in snake_case, arrays never null.

Scripts depend on these forms: keys are added, and no key changes its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discovery_cli.examples import arguments, command_line
from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Entry
from discovery_engine.tools.signature import signature
from discovery_engine.view.status import error_code

if TYPE_CHECKING:
    from discovery_engine.search.examples.book import Examples
    from discovery_engine.search.query.analyzed_query import AnalyzedQuery
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View


_COUNTERS = {
    "calls": "calls",
    "failures": "failures",
    "refused": "refused",
    "restarts": "restarts",
    "invalid_lines": "garbage",
    "unsolicited_responses": "strays",
    "duplicate_responses": "duplicates",
}
"""The attribute of `SessionStats` by the key of its counter."""


def server_form(summary: ServerReport) -> JSONObject:
    return {
        "name": summary.name,
        "description": summary.description,
        "status": str(summary.state),
        "code": None if summary.is_healthy else error_code(summary.state),
        "reason": summary.reason,
        "hint": summary.hint,
        "detail": summary.detail,
        "tool_count": summary.tool_count,
        "enabled_count": summary.enabled_count,
        "tags": list(summary.tags),
        "listed_at": summary.listed_at,
        "is_stale": summary.is_stale,
        "stderr": summary.stderr,
    }


def health_form(server: ServerReport, next_command: str) -> JSONObject:
    """The health of a server; `session` is null if this run did not use it."""
    stats = server.stats
    session = stats and {
        "pid": stats.pid,
        "protocol_version": stats.protocol_version,
        "users": stats.users,
        "queued": stats.queued,
        "counters": {key: getattr(stats, name) for key, name in _COUNTERS.items()},
        "invalid_output": list(stats.samples),
        "stderr": stats.stderr,
    }
    return server_form(server) | {
        "is_well": server.is_healthy,
        "since": server.since,
        "next_step": next_command,
        "next_try": server.next_try,
        "withheld_count": server.withheld_count,
        "dropped": [{"tool": tool.name, "reason": tool.reason} for tool in server.dropped],
        "session": session,
        "gateways": [
            {
                "pid": one.gateway,
                "status": one.status,
                "reason": one.reason,
                "since": one.since,
                "next_try": one.next_try,
            }
            for one in server.gateways
        ],
    }


def tool_form(entry: Entry, view: View) -> JSONObject:
    return {
        "server": entry.tool.server,
        "tool": entry.tool.name,
        "summary": entry.tool.summary,
        "enabled": entry.verdict.enabled,
        "reason": view.reason(entry),
        "tags": list(entry.verdict.tags),
    }


def hit_form(hit: Hit, view: View) -> JSONObject:
    parts = hit.parts
    return tool_form(hit.entry, view) | {
        "relevance": hit.relevance,
        "parts": {
            "exact": parts.exact,
            "partial": parts.partial,
            "tag": parts.tag,
            "usage": parts.usage,
        },
    }


def alternative_forms(answer: SearchAnswer) -> list[JSONObject]:
    """The differences of the first results, if they fit equally well."""
    return [
        {
            "server": one.server,
            "tool": one.tool,
            "words": list(one.words),
            "required": list(one.required),
        }
        for one in answer.alternatives
    ]


def explained_form(hit: Hit, view: View, query: AnalyzedQuery) -> JSONObject:
    """A hit with the contribution of each word of the query to its relevance."""
    explanation = view.searcher.explain(query, hit)
    shares = [
        {
            "reason": str(share.reason),
            "word": share.word,
            "tool_word": share.tool_word,
            "field": share.field,
            "weight": share.weight,
            "adds": share.adds,
            "text": str(share),
        }
        for share in explanation.shares
    ]
    form = {"shares": shares, "uncovered": list(explanation.uncovered)}
    return hit_form(hit, view) | {"explanation": form}


def details_form(entry: Entry, view: View) -> JSONObject:
    tool = entry.tool
    return tool_form(entry, view) | {
        "title": tool.title,
        "description": tool.description,
        "signature": signature(tool),
        "parameters": parameter_forms(entry),
        "annotations": tool.annotations,
        "input_schema": tool.input_schema,
        "output_schema": tool.definition.get("outputSchema"),
        "examples": [{"arguments": arguments(entry), "command": command_line(entry)}],
        "fingerprint": tool.fingerprint,
        "findings": [finding.to_json() for finding in view.findings(entry)],
        "overridden": overridden_form(entry, view),
    }


def examples_of(entry: Entry, view: View) -> Examples | None:
    """The typical requests by which search finds a tool, and where they are from."""
    part = view.catalog.part(entry.tool.server)
    return view.book.of_tools([one.tool for one in part.entries]).get(entry.tool.upstream_name)


def requests_form(entry: Entry, view: View) -> JSONObject | None:
    found = examples_of(entry, view)
    if found is None:
        return None
    return {"texts": list(found.texts), "source": str(found.source), "note": found.note}


def overridden_form(entry: Entry, view: View) -> JSONObject:
    """The overrides of a tool; for pinned arguments only the names."""
    tool = entry.tool
    by = [(index, view.settings.overrides[index]) for index in tool.overridden.by]
    return {
        "given_name": tool.given_name,
        "overrides": [
            {"index": index, "origin": str(override.origin), "gives": override.gives()}
            for index, override in by
        ],
        "pinned": list(tool.overridden.pinned),
        "problems": list(tool.overridden.problems),
    }


def parameter_forms(entry: Entry) -> list[JSONObject]:
    """Required parameters first, then by name."""
    return [
        {
            "name": parameter.name,
            "type": parameter.type,
            "description": parameter.description,
            "required": parameter.required,
        }
        for parameter in entry.tool.parameters
    ]


def notice_forms(notices: Iterable[Notice]) -> list[JSONObject]:
    return [
        {
            "code": notice.code,
            "kind": notice.kind,
            "message": notice.to_owner or notice.message,
            "server": notice.server,
        }
        for notice in notices
    ]
