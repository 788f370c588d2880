"""The reports of a worker, claim by claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.runtime.refresh_worker import WorkerReport


def worker_report_form(report: WorkerReport, *, at: float) -> JSONObject:
    """`at` is Unix time in seconds."""
    return {
        "at": at,
        "event": report.outcome,
        "server": report.server,
        "fence": report.fence,
        "seconds": round(report.seconds, 3),
        "tools": report.tools,
        "due_in_seconds": report.due_in,
        "code": report.code,
        "message": report.message,
    }
