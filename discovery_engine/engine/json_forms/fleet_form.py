"""The refresh queue as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.owner.fleet import FleetStatus
    from discovery_engine.store.fleet.refresh_job import RefreshJob


def fleet_form(status: FleetStatus) -> JSONObject:
    oldest = status.oldest_due
    return {
        "counts": dict(status.counts),
        "oldest_due": oldest and {"server": oldest.server, "seconds": status.seconds_overdue},
        "jobs": [job_form(job) for job in status.jobs],
        "recent_activity": [job.server for job in status.recent_activity()],
        "recent_registrations": [job.server for job in status.recent_registrations()],
        "embedding_count": status.embedding_count,
        "now": status.now,
    }


def job_form(job: RefreshJob) -> JSONObject:
    is_held = job.state == "processing"
    return {
        "server": job.server,
        "state": job.state,
        "due_at": job.due_at,
        "priority": job.priority,
        "attempts": job.attempts,
        "worker": job.holder if is_held else None,
        "claimed_at": job.claimed_at,
        "lease_until": job.lease_until,
        "listed_at": job.listed_at,
        "tool_count": job.tool_count,
        "created_at": job.created_at,
        "failing_since": job.failing_since,
        "error": {"code": job.error_code, "message": job.error_message} if job.error_code else None,
    }
