"""Installations, updates, rollbacks and removals: planned, and done. No form holds a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

from discovery_engine.engine.json_forms.error_form import error_form
from discovery_engine.engine.json_forms.server_plan_form import shown_plan_form, shown_sync_form
from discovery_engine.engine.owner.server_plans import ServerPlan
from discovery_engine.engine.owner.setup_sync import SyncPlan
from discovery_engine.secrets.masking import without_credentials

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.owner.agent_requests import RequestPlan
    from discovery_engine.errors import DiscoveryError
    from discovery_engine.marketplace.installer.install_records import InstalledServer
    from discovery_engine.marketplace.installer.plan import UpdatePlan


def update_form(
    plan: UpdatePlan, *, is_done: bool = False, failure: DiscoveryError | None = None
) -> JSONObject:
    """An update of a server: what is different, and what became of it."""
    problem = failure or plan.problem
    return {
        "name": plan.name,
        "entry": plan.record.entry_name,
        "version": plan.record.current.pin.version,
        "available": plan.install.pin.version if plan.install else None,
        "differences": to_builtins(plan.differences),
        "missing": [asked_input.key for asked_input in plan.missing],
        "warnings": list(plan.install.warnings) if plan.install else [],
        "problem": error_form(problem) if problem else None,
        "updated": is_done,
    }


def update_plan_form(plan: UpdatePlan) -> JSONObject:
    """An update with all that it would run."""
    return update_form(plan) | {"plan": plan.install and plan.install.to_json()}


def rollback_plan_form(record: InstalledServer) -> JSONObject:
    """The version of a server to go back to; None for what there is not."""
    earlier = record.previous
    entry = earlier.server_entry if earlier else {}
    command = entry.get("command")
    url = entry.get("url")
    return {
        "name": record.name,
        "version": record.current.pin.version,
        "available": earlier.pin.version if earlier else None,
        "package": str(earlier.pin) if earlier else None,
        "integrity": earlier.pin.integrity if earlier else None,
        "command": [command, *entry.get("args", ())] if command else None,
        "url": without_credentials(str(url)) if url else None,
    }


def request_plan_form(plan: RequestPlan, settings: Settings) -> JSONObject:
    """Return what accepting a request of an agent would do to servers of these settings."""
    match plan:
        case ServerPlan():
            return shown_plan_form(plan, settings)
        case SyncPlan():
            return shown_sync_form(plan, settings)
    return plan.to_json()
