"""Tools, servers, answers of a search and the rest of what reading commands show."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import to_builtins

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.engine.json_forms import all_fields, fields
from discovery_engine.tools.apps import APP_MIME_TYPE, wanted_access
from discovery_engine.tools.signature import signature
from discovery_engine.view.search_answers import LEAST_MATCH
from discovery_engine.view.status import error_code

if TYPE_CHECKING:
    from discovery_engine.catalog import (
        DroppedTool,
        Entry,
        Failure,
        OfferingEntry,
        RefreshReport,
        ServerPart,
    )
    from discovery_engine.engine.owner.search_examination import SearchExamination
    from discovery_engine.rules.rule import Rule, RuleExplanation, Step
    from discovery_engine.search.examples.book import Examples
    from discovery_engine.search.query.retrieval import AnalyzedQuery
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.tools.model import Parameter
    from discovery_engine.tools.offering import Offering
    from discovery_engine.view.explanations import Reservation
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

_SAMPLES: Mapping[str, JSONValue] = {
    "string": "...",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def notice_forms(notices: Iterable[Notice]) -> list[JSONObject]:
    return [
        {
            **fields(notice, "code kind"),
            "message": notice.to_owner or notice.message,
            "server": notice.server,
        }
        for notice in notices
    ]


def tool_form(entry: Entry, view: View) -> JSONObject:
    return {
        "server": entry.tool.server,
        "tool": entry.tool.name,
        "summary": entry.tool.summary,
        "enabled": entry.verdict.enabled,
        "reason": view.reason(entry),
        "tags": list(entry.verdict.tags),
    }


def details_form(entry: Entry, view: View) -> JSONObject:
    tool = entry.tool
    return {
        **tool_form(entry, view),
        **fields(tool, "title description"),
        "signature": signature(tool),
        "parameters": all_fields(tool.parameters, "name type description required"),
        **fields(tool, "annotations input_schema"),
        "output_schema": tool.definition.get("outputSchema"),
        "examples": [{"arguments": example_arguments(entry), "command": command_line(entry)}],
        "fingerprint": tool.fingerprint,
        "findings": [finding.to_json() for finding in view.findings(entry)],
        "overridden": overridden_form(entry, view),
    }


def examples_of(entry: Entry, view: View) -> Examples | None:
    """The typical requests by which search finds a tool, and where they are from."""
    part = view.catalog.part(entry.tool.server)
    return view.book.of_tools([sibling.tool for sibling in part.entries]).get(
        entry.tool.upstream_name
    )


def requests_form(entry: Entry, view: View) -> JSONObject | None:
    examples = examples_of(entry, view)
    if examples is None:
        return None
    return {"texts": list(examples.texts), "source": str(examples.source), "note": examples.note}


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


def example_arguments(entry: Entry) -> JSONObject:
    """A value for each required parameter: one that the schema names, or one of its type."""
    return {p.name: _sample(p) for p in entry.tool.parameters if p.required}


def command_line(entry: Entry) -> str:
    """Return a command, such as `discovery execute github:create_issue title=...`."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in example_arguments(entry).items()
    }
    words = [f"{name}={text}" for name, text in texts.items()]
    return shlex.join(["discovery", "execute", str(entry.key), *words])


def _sample(parameter: Parameter) -> JSONValue:
    schema = parameter.schema
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    kinds = parameter.type.split("|")
    return next((_SAMPLES[kind] for kind in kinds if kind in _SAMPLES), "...")


def offering_form(entry: OfferingEntry, view: View) -> JSONObject:
    offering = entry.offering
    return {
        "server": offering.server,
        "kind": offering.kind.value,
        offering.kind.wire.identifier: offering.identifier,
        "address": view.offerings.address(offering),
        **fields(offering, "name title description mime_type"),
        "arguments": all_fields(offering.parameters, "name description required"),
        "enabled": entry.is_visible,
        "reason": view.reason(entry),
        "tags": list(entry.verdict.tags),
    }


def explained_tool_form(entry: Entry, explanation: RuleExplanation, view: View) -> JSONObject:
    return {
        "tool": entry.tool.name,
        **verdict_form(entry.tool.server, entry, explanation),
        "overridden": overridden_form(entry, view),
        "typical_requests": requests_form(entry, view),
    }


def verdict_form(
    server: str, entry: Entry | OfferingEntry, explanation: RuleExplanation
) -> JSONObject:
    """The rule that decided, and the effect of every other rule."""
    deciding = explanation.deciding
    return {
        "server": server,
        "enabled": explanation.verdict.enabled,
        "reason": explanation.sentence,
        "tags": list(entry.verdict.tags),
        "deciding_rule": deciding.index if deciding else None,
        "rules": [_step_form(step) for step in explanation.steps],
    }


def _step_form(step: Step) -> JSONObject:
    return {
        "index": step.index,
        "origin": str(step.rule.origin),
        **fields(step.rule, "patterns enabled"),
        **fields(step, "matched decided too_slow tags"),
    }


def visible_to_form(reserved: Iterable[Reservation]) -> JSONObject:
    """Return the teams and users that an item is reserved for, and the rules; for the owner."""
    forms = [
        fields(reservation, "by principals") | {"origin": str(reservation.origin)}
        for reservation in reserved
    ]
    return {"visible_to": forms}


def search_form(
    answer: SearchAnswer, view: View, *, explain: bool = False, is_owner: bool = False
) -> JSONObject:
    """An answer; with `explain`, each hit with what the words of the query add to it.

    The requests that a tool serves are for its owner alone.
    """
    form_of = hit_form
    if explain:
        query = view.searcher.analyze(answer.query)
        form_of = partial(explained_form, query=query, is_owner=is_owner)
    return {
        **fields(answer, "query decision confidence certainty"),
        "results": [form_of(hit, view) for hit in answer.hits],
        "offerings": [
            offering_form(hit.entry, view) | {"relevance": hit.relevance}
            for hit in answer.offerings
        ],
        "alternatives": to_builtins(answer.alternatives),
        "nearest": [form_of(hit, view) for hit in answer.nearest],
        "uncovered": list(answer.uncovered),
        "undone": list(answer.undone),
        "notices": notice_forms(answer.notices),
    }


def examination_form(examination: SearchExamination, whole: View) -> JSONObject:
    """An answer with all that its owner may know of it; `whole` has what is hidden."""
    query = whole.searcher.analyze(examination.answer.query)
    least = examination.shown.settings.search.min_confidence
    return search_form(examination.answer, examination.shown, explain=True, is_owner=True) | {
        "thresholds": {"shown": least, "match": max(least, LEAST_MATCH)},
        "hidden": [
            {
                **explained_form(hidden_hit.hit, whole, query),
                **fields(hidden_hit, "rank hidden_by=reason view"),
                "rule": _rule_form(hidden_hit.rule) if hidden_hit.rule else None,
            }
            for hidden_hit in examination.hidden
        ],
    }


def _rule_form(rule: Rule) -> JSONObject:
    place = fields(rule.origin, "file line column")
    return fields(rule, "patterns enabled") | {key: part or None for key, part in place.items()}


def hit_form(hit: Hit, view: View) -> JSONObject:
    parts = fields(hit.parts, "exact partial tag usage rerank")
    return tool_form(hit.entry, view) | {"relevance": hit.relevance, "parts": parts}


def explained_form(
    hit: Hit, view: View, query: AnalyzedQuery, *, is_owner: bool = False
) -> JSONObject:
    """A hit with the contribution of each word of the query to its relevance."""
    explanation = view.searcher.explain(query, hit)
    shares = [
        fields(share, "reason word tool_word field weight adds") | {"text": str(share)}
        for share in explanation.shares
    ]
    form: JSONObject = {"shares": shares, "uncovered": list(explanation.uncovered)}
    if is_owner:
        form["request"] = explanation.request
    return hit_form(hit, view) | {"explanation": form}


def server_form(report: ServerReport) -> JSONObject:
    return {
        **fields(report, "name description wanted=is_wanted status=state"),
        "code": None if report.is_healthy else error_code(report.state),
        **fields(report, "reason hint detail tool_count enabled_count skill_count"),
        "dropped": _dropped(report.dropped),
        **fields(
            report,
            "tags sandbox listed_at is_stale stderr source package created_at updated_at",
        ),
    }


def health_form(report: ServerReport, next_command: str) -> JSONObject:
    """The health of a server; `session` is null if this run did not use it."""
    stats = report.stats
    session = stats and {
        **fields(stats, "pid confined_with=sandbox protocol_version users queued"),
        "counters": fields(
            stats,
            "calls failures refused restarts invalid_lines=garbage"
            " unsolicited_responses=strays duplicate_responses=duplicates",
        ),
        **fields(stats, "invalid_output=samples stderr"),
    }
    return {
        **server_form(report),
        **fields(report, "is_well=is_healthy since"),
        "next_step": next_command,
        **fields(report, "next_try withheld_count"),
        "session": session,
        "gateways": all_fields(report.gateways, "pid=gateway status reason since next_try"),
    }


def whole_server_form(report: ServerReport, view: View, entries: Iterable[Entry]) -> JSONObject:
    """A server with its source, its instructions, and these of its tools in full."""
    settings = view.server_settings(report.name)
    part = view.catalog.parts.get(report.name)
    return server_form(report) | {
        "source": settings.source,
        "origin": str(settings.origin),
        "instructions": part.instructions if part else "",
        "unusable": all_fields(report.dropped, "name reason"),
        "removed": all_fields(part.removed if part else (), "name at"),
        "apps": [app_form(entry.offering) for entry in apps_of(part)] if part else [],
        "tools": [details_form(entry, view) for entry in entries],
    }


def apps_of(part: ServerPart) -> Iterator[OfferingEntry]:
    """Yield the pages of MCP Apps among the resources of a server."""
    return (entry for entry in part.resources if entry.offering.mime_type == APP_MIME_TYPE)


def app_form(page: Offering) -> JSONObject:
    """The page of an app, with what it wants to reach."""
    return {"uri": page.identifier, "access": list(wanted_access(page.definition))}


def refresh_form(report: RefreshReport, view: View) -> JSONObject:
    diff = report.diff
    return {
        "servers": [
            {
                "name": name,
                "success": failure is None,
                "tool_count": len(view.catalog.part(name).entries),
                "dropped": _dropped(view.catalog.part(name).dropped),
                **failure_form(failure),
                "stderr": failure.stderr if failure else "",
            }
            for name, failure in report.servers
        ],
        **{key: list(map(str, getattr(diff, key))) for key in ("added", "removed", "changed")},
    }


def failure_form(failure: Failure | None) -> JSONObject:
    """The failure of a server's listing; without a code if it did not fail."""
    if failure is None:
        return {"code": None, "message": "", "hint": "", "detail": ""}
    return fields(failure, "code message hint detail")


def _dropped(tools: Iterable[DroppedTool]) -> list[JSONObject]:
    return all_fields(tools, "tool=name reason")
