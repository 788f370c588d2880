"""Changes of the configured servers: what each would write, and what it would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from discovery_engine.config.serialization import serialize_server, serialize_server_redacted
from discovery_engine.engine.owner.shown_diff import shown_diff

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.config.sources.pasted import PastedServer
    from discovery_engine.engine.owner.server_plans import ServerPlan
    from discovery_engine.engine.owner.setup_sync import SyncPlan


def server_plan_form(plan: ServerPlan, *, is_written: bool) -> JSONObject:
    return {
        "name": plan.name,
        "where": plan.where,
        "path": str(plan.edit.path) if plan.edit else None,
        "written": is_written,
        "diff": plan.diff,
        "secrets": list(plan.secrets),
        "warnings": list(plan.warnings),
        **copy_form(plan),
    }


def copy_form(plan: ServerPlan) -> JSONObject:
    """Return the origin in another client's file, and the changes; empty if nothing is copied."""
    if plan.original is None:
        return {}
    origin = plan.original.origin
    source = {"source": plan.original.source, "client": origin.client, "path": origin.file}
    return {"copied_from": source, "changes": plan.changes}


def shown_plan_form(plan: ServerPlan, settings: Settings) -> JSONObject:
    """A plan under these settings, for those who read no file: without secrets of the file."""
    form = server_plan_form(plan, is_written=False)
    hidden = {key: shown_diff(form[key], settings) for key in ("diff", "changes") if key in form}
    return form | {"verb": plan.verb} | hidden


def sync_plan_form(plan: SyncPlan, *, is_written: bool) -> JSONObject:
    report = plan.report
    return {
        "path": str(plan.path),
        "written": is_written,
        "registered": list(report.registered),
        "activated": list(report.activated),
        "skipped": to_builtins(report.skipped),
        "errors": to_builtins(report.errors),
    }


def shown_sync_form(plan: SyncPlan, settings: Settings) -> JSONObject:
    """With what each server would run."""
    forms = [shown_plan_form(server_plan, settings) for server_plan in plan.plans]
    return sync_plan_form(plan, is_written=False) | {"plans": forms}


def server_entry_form(server: ServerSettings) -> JSONObject:
    """The entry of a server, with references as they are written, and without values."""
    return {
        "name": server.name,
        "source": server.source,
        "origin": str(server.origin),
        "entry": serialize_server_redacted(server),
    }


def pasted_form(one: PastedServer) -> JSONObject:
    """A server of a pasted text, with what its own text has in it, for who pasted it."""
    return {
        "name": one.name,
        "entry": serialize_server(one.server) if one.server else None,
        "notes": list(one.notes),
        "problem": one.problem,
    }
