"""The JSON forms of marketplace entries and installations; texts are as published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import to_builtins

from discovery_engine.engine.json_forms import all_fields, fields
from discovery_engine.engine.json_forms.error_form import error_form
from discovery_engine.engine.json_forms.owner_forms import shown_plan_form, shown_sync_form
from discovery_engine.engine.owner.server_plans import ServerPlan
from discovery_engine.engine.owner.setup_sync import SyncPlan
from discovery_engine.errors import DiscoveryError
from discovery_engine.secrets.masking import without_credentials

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.owner.agent_requests import RequestPlan
    from discovery_engine.marketplace.entry import (
        Input,
        MarketplaceEntry,
        PackageOffer,
        RemoteOffer,
    )
    from discovery_engine.marketplace.entry_details import EntryDetails
    from discovery_engine.marketplace.installer.plan import InstallPlan, UpdatePlan
    from discovery_engine.marketplace.marketplace import MarketplacePage
    from discovery_engine.marketplace.package_managers.manager_command import Prerequisite
    from discovery_engine.marketplace.synchronizer import SourceReport, SourceState
    from discovery_engine.store.install_records import InstalledServer


def page_form(page: MarketplacePage) -> JSONObject:
    """Return the form of a page of search results."""
    return {
        "servers": [
            entry_form(result.entry) | {"relevance": round(result.relevance, 4)}
            for result in page.entries
        ],
        **fields(page, "next_cursor synced_at"),
        "problems": [problem.to_json() for problem in page.problems],
    }


def entry_details_form(
    details: EntryDetails, plan: InstallPlan | DiscoveryError | None
) -> JSONObject:
    """Return an entry with its warnings, the programs that it needs, and its plan or obstacle."""
    obstacle = plan if isinstance(plan, DiscoveryError) else None
    return {
        "server": whole_entry_form(details.entry),
        "warnings": [warning.to_json() for warning in details.warnings],
        "prerequisites": list(map(prerequisite_form, details.prerequisites)),
        "plan": None if plan is None or isinstance(plan, DiscoveryError) else plan.to_json(),
        "obstacle": error_form(obstacle) if obstacle else None,
        "problems": [problem.to_json() for problem in details.problems],
    }


def prerequisite_form(prerequisite: Prerequisite) -> JSONObject:
    """Return the form of a program that starts packages, with its state on this machine."""
    return {
        "program": prerequisite.program,
        "path": prerequisite.path or None,
        **fields(prerequisite, "version is_usable problem hint"),
    }


def source_form(state: SourceState) -> JSONObject:
    """Return the form of a source, with the age of its copy."""
    form = fields(state, "id=name type trust entries synced_at is_complete is_syncing")
    return form | {"problems": [problem.to_json() for problem in state.problems]}


def sync_form(report: SourceReport) -> JSONObject:
    """Return the form of a synchronisation's result."""
    form = fields(report, "id=source was_due is_complete pages added updated removed")
    return form | {"problems": [problem.to_json() for problem in report.problems]}


def entry_form(entry: MarketplaceEntry) -> JSONObject:
    """Return an entry for a list of results."""
    dates = ("published_at", "first_published_at", "updated_at")
    return {
        **fields(entry, "id name title description version publisher repository website"),
        **{name: getattr(entry, name) or None for name in dates},
        **fields(entry, "status status_message trust is_reviewed"),
        "sources": all_fields(entry.origins, "id=source trust"),
        "packages": all_fields(entry.packages, "type=registry_type identifier version"),
        "remotes": all_fields(entry.remotes, "type url"),
        "tool_count": None if entry.tools is None else len(entry.tools),
        "tags": list(entry.tags),
    }


def whole_entry_form(entry: MarketplaceEntry) -> JSONObject:
    """Return an entry with its packages, remotes, tools and versions in full."""
    tools = None if entry.tools is None else all_fields(entry.tools, "name description")
    return entry_form(entry) | {
        "packages": [_package_form(package) for package in entry.packages],
        "remotes": [_remote_form(remote) for remote in entry.remotes],
        "refused": all_fields(entry.refused, "type=registry_type identifier reason"),
        "tools": tools,
        "versions": [
            fields(note, "version status") | {"published_at": note.published_at or None}
            for note in entry.versions
        ],
    }


def _package_form(offer: PackageOffer) -> JSONObject:
    return {
        **fields(offer, "type=registry_type identifier version"),
        "integrity": offer.integrity or None,
        "runtime": offer.runtime_hint,
        "registry_url": offer.registry_url or None,
        "transport": offer.transport.type,
        "runtime_arguments": _inputs_form(offer.runtime_arguments),
        "arguments": _inputs_form(offer.package_arguments),
        "environment": _inputs_form(offer.environment),
    }


def _remote_form(offer: RemoteOffer) -> JSONObject:
    return {
        **fields(offer, "type url"),
        "headers": _inputs_form(offer.headers),
        "variables": _inputs_form(offer.variables),
    }


def _inputs_form(inputs: Iterable[Input]) -> list[JSONObject]:
    return [
        {
            **fields(offered_input, "name kind description"),
            "value": offered_input.value or None,
            "default": None if offered_input.is_secret else offered_input.default or None,
            "placeholder": offered_input.placeholder or None,
            **fields(offered_input, "choices format is_required is_secret is_repeated"),
            "variables": _inputs_form(offered_input.variables),
        }
        for offered_input in inputs
    ]


def update_form(
    plan: UpdatePlan, *, is_done: bool = False, failure: DiscoveryError | None = None
) -> JSONObject:
    """Return the form of an update: its differences, and its outcome."""
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
    """Return the form of an update with its whole plan."""
    return update_form(plan) | {"plan": plan.install and plan.install.to_json()}


def rollback_plan_form(record: InstalledServer) -> JSONObject:
    """Return the version that a rollback restores; its members are None if there is none."""
    earlier = record.previous
    entry = earlier.server_entry if earlier else {}
    command, url = entry.get("command"), entry.get("url")
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
    """Return the effect of accepting an agent's request on servers of these settings."""
    match plan:
        case ServerPlan():
            return shown_plan_form(plan, settings)
        case SyncPlan():
            return shown_sync_form(plan, settings)
    return plan.to_json()
