"""The answers of the meta-tools for programs: every field, whole, whatever the text leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import clean, one_line
from discovery_engine.catalog import Entry
from discovery_engine.search.ranking.hit import Hit
from discovery_engine.tools.model import Parameter, Tool
from discovery_engine.view.notices import Notice
from discovery_engine.view.search_answers import OfferingHit, SearchAnswer
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import ToolList


def search_fields(answer: SearchAnswer) -> JSONObject:
    others = {"offerings": offering_fields(answer.offerings)} if answer.offerings else {}
    return others | {
        "decision": answer.decision.value,
        "confidence": round(answer.confidence, 4),
        "certainty": answer.certainty,
        "results": hit_fields(answer.hits),
        "alternatives": [
            {
                "server": alternative.server,
                "tool": alternative.tool,
                "words": list(alternative.words),
                "required": list(alternative.required),
            }
            for alternative in answer.alternatives
        ],
        "nearest": hit_fields(answer.nearest),
        "uncovered": list(map(clean, answer.uncovered)),
        "undone": list(answer.undone),
        "notices": notice_fields(answer.notices),
    }


def offering_fields(hits: Sequence[OfferingHit]) -> list[JSONObject]:
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


def hit_fields(hits: Iterable[Hit]) -> list[JSONObject]:
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


def list_fields(listed: ToolList) -> JSONObject:
    tools = [
        {
            "name": entry.tool.name,
            "summary": clean(entry.tool.summary),
            "enabled": entry.is_visible,
            "tags": list(entry.verdict.tags),
        }
        for entry in listed.entries
    ]
    return {"tools": tools, "notices": notice_fields(listed.notices)}


def details_fields(entry: Entry) -> JSONObject:
    tool = entry.tool
    return {
        "server": tool.server,
        "tool": tool.name,
        "description": clean(tool.description),
        "parameters": [_parameter_fields(parameter) for parameter in tool.parameters],
        "examples": _examples(tool),
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
        "tags": list(entry.verdict.tags),
    }


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
