"""Servers and their health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.engine.json_forms.tool_form import details_form
from discovery_engine.view.status import error_code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import DroppedTool, Entry, RefreshReport
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
        "wanted": summary.is_wanted,
        "status": str(summary.state),
        "code": None if summary.is_healthy else error_code(summary.state),
        "reason": summary.reason,
        "hint": summary.hint,
        "detail": summary.detail,
        "tool_count": summary.tool_count,
        "enabled_count": summary.enabled_count,
        "dropped": _dropped(summary.dropped),
        "tags": list(summary.tags),
        "sandbox": summary.sandbox,
        "listed_at": summary.listed_at,
        "is_stale": summary.is_stale,
        "stderr": summary.stderr,
        "source": summary.source,
        "package": summary.package,
        "created_at": summary.created_at,
        "updated_at": summary.updated_at,
    }


def health_form(server: ServerReport, next_command: str) -> JSONObject:
    """The health of a server; `session` is null if this run did not use it."""
    stats = server.stats
    session = stats and {
        "pid": stats.pid,
        "confined_with": stats.sandbox,
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
        "session": session,
        "gateways": [
            {
                "pid": observation.gateway,
                "status": observation.status,
                "reason": observation.reason,
                "since": observation.since,
                "next_try": observation.next_try,
            }
            for observation in server.gateways
        ],
    }


def whole_server_form(summary: ServerReport, view: View, entries: Iterable[Entry]) -> JSONObject:
    """A server with its source, its instructions, and these of its tools in full."""
    settings = view.server_settings(summary.name)
    part = view.catalog.parts.get(summary.name)
    return server_form(summary) | {
        "source": settings.source,
        "origin": str(settings.origin),
        "instructions": part.instructions if part else "",
        "unusable": [{"name": d.name, "reason": d.reason} for d in summary.dropped],
        "removed": [{"name": r.name, "at": r.at} for r in part.removed] if part else [],
        "tools": [details_form(entry, view) for entry in entries],
    }


def _dropped(tools: Iterable[DroppedTool]) -> list[JSONObject]:
    return [{"tool": tool.name, "reason": tool.reason} for tool in tools]


def refresh_form(report: RefreshReport, view: View) -> JSONObject:
    diff = report.diff
    return {
        "servers": [
            {
                "name": name,
                "success": failure is None,
                "tool_count": len(view.catalog.part(name).entries),
                "dropped": _dropped(view.catalog.part(name).dropped),
                "code": failure.code if failure else None,
                "message": failure.message if failure else "",
                "hint": failure.hint if failure else "",
                "detail": failure.detail if failure else "",
                "stderr": failure.stderr if failure else "",
            }
            for name, failure in report.servers
        ],
        "added": list(map(str, diff.added)),
        "removed": list(map(str, diff.removed)),
        "changed": list(map(str, diff.changed)),
    }
