"""The answers of `registry`, as JSON; texts of strangers are cleaned, and cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine import scanner
from discovery_engine._util.text import clean, one_line
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.view.search_answers import Decision

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.marketplace.entry_search import FoundEntry
    from discovery_engine.owner.server_listing import OwnedServer
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

_LONGEST = 300  # characters of a description
_MOST_REASONS = 3  # why nothing was found
_MOST_TOOLS = 50  # of a server in the status
_CONFIDENCE = {"sure": "high", "likely": "medium"}
_NEXT_STEP = {
    "high": "call it with proxy_call",
    "medium": "compare other_matches, then call it with proxy_call",
    "low": "these are only the nearest: read get_schema before you call one, or ask in other words",
}


def found_answer(answer: SearchAnswer, *, may_browse: bool) -> JSONObject:
    """As `find_tool` answers; `may_browse` says whether the caller has the action `browse`."""
    if not answer.hits:
        top = answer.nearest[0].relevance if answer.nearest else 0.0
        # The advice to use other words names a tool that is not here.
        why = [n.message for n in answer.notices if n.code != "ANSWER_NO_MATCH"][:_MOST_REASONS]
        further = "browse finds servers that could be installed"
        further = further if may_browse else "ask the user for another server"
        hint = "; ".join([*map(one_line, why or ["no tool fits"]), further])
        return {"found": False, "matches": [], "top_score": round(top, 4), "hint": hint}
    first, *others = answer.hits
    is_match = answer.decision is Decision.MATCH
    confidence = _CONFIDENCE.get(answer.certainty or "", "low") if is_match else "low"
    required = [one for one in first.entry.tool.parameters if one.required]
    return {
        "found": True,
        "confidence": confidence,
        **_match(first),
        "server": first.entry.tool.server,
        "required_args": [
            {"name": one.name, "type": one.type, "description": _short(one.description)}
            for one in required
        ],
        "optional_count": len(first.entry.tool.parameters) - len(required),
        "next_step": _NEXT_STEP[confidence],
        "other_matches": [_match(hit) for hit in others],
    }


def schema_answer(entry: Entry) -> JSONObject:
    return {
        "found": True,
        "call_as": call_as(entry),
        "description": clean(entry.tool.description),
        "input_schema": entry.tool.input_schema,
    }


def server_answer(report: ServerReport, owned: OwnedServer | None = None) -> JSONObject:
    """A server; with `owned` also what only a client of everything may know."""
    answer: JSONObject = {
        "id": report.name,
        "name": report.name,
        "description": _short(report.description),
        "tags": list(report.tags),
        "active": report.state != "disabled",
        "health_status": str(report.state),
        "last_health_check": report.listed_at,
        "error_count": report.stats.failures if report.stats else 0,
        "tool_count": report.enabled_count,
    }
    if owned:
        answer |= {
            "source": owned.source,
            "transport": _transport(owned),
            "installed": owned.package is not None,
            "active": owned.is_wanted,
        }
    return answer


def _transport(owned: OwnedServer) -> str:
    match owned.settings.transport:
        case StdioTransport():
            return "stdio"
        case RemoteTransport(kind=kind):
            return kind
    return ""


def status_answer(view: View) -> JSONObject:
    active = [one for one in view.servers() if one.state != "disabled"]
    return {
        "active_count": len(active),
        "servers": [
            {
                "name": one.name,
                "description": _short(one.description),
                "tool_count": one.enabled_count,
                "tools": [
                    entry.tool.name for entry in view.catalog.part(one.name).visible[:_MOST_TOOLS]
                ],
            }
            for one in active
        ],
    }


def entry_answer(found: FoundEntry) -> JSONObject:
    entry = found.entry
    return {
        "name": one_line(entry.name),
        "description": _harmless(entry.description),
        "version": one_line(entry.version),
        "status": entry.status,
        "repository": one_line(entry.repository),
        "packages": [
            {
                "name": one_line(p.identifier),
                "runtime": p.registry_type,
                "version": one_line(p.version),
            }
            for p in entry.packages
        ],
    }


def request_answer(request: AgentRequest) -> JSONObject:
    """What an agent reads about its request, now and later."""
    answer: JSONObject = {
        "status": "requested" if request.state == "waiting" else request.state,
        "action": request.action,
        "name": request.name,
        "request": request.id,
    }
    if request.state == "waiting":
        next_step = "the user decides with `discovery requests`; status says what became of it"
        return answer | {"next_step": next_step}
    return answer | {"outcome": one_line(request.outcome)}


def call_as(entry: Entry) -> str:
    return f"mcp__{entry.tool.server}__{entry.tool.name}"


def _match(hit: Hit) -> JSONObject:
    return {
        "call_as": call_as(hit.entry),
        "tool": hit.entry.tool.name,
        "description": _short(hit.entry.tool.description),
        "score": round(hit.relevance, 4),
    }


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _harmless(text: str) -> str:
    """A text that a stranger may have published; nothing of one that is suspicious."""
    return "" if scanner.alarms(scanner.scan_text(text, where="description")) else _short(text)
