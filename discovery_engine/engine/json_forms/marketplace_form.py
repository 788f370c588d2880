"""Entries of the marketplace, as programs read them; texts are as they were published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.engine.json_forms.error_form import error_form
from discovery_engine.engine.json_forms.prerequisite_form import prerequisite_form
from discovery_engine.errors import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from discovery_engine._util.json import JSONObject
    from discovery_engine.marketplace.entry import (
        Input,
        MarketplaceEntry,
        PackageOffer,
        RemoteOffer,
    )
    from discovery_engine.marketplace.entry_details import EntryDetails
    from discovery_engine.marketplace.installer.plan import InstallPlan
    from discovery_engine.marketplace.marketplace import MarketplacePage
    from discovery_engine.marketplace.source_copies import SourceState
    from discovery_engine.marketplace.synchronizer import SourceReport


def page_form(page: MarketplacePage) -> JSONObject:
    """The answer of a search."""
    return {
        "servers": [
            entry_form(result.entry) | {"relevance": round(result.relevance, 4)}
            for result in page.entries
        ],
        "next_cursor": page.next_cursor,
        "synced_at": page.synced_at,
        "problems": [problem.to_json() for problem in page.problems],
    }


def entry_details_form(
    details: EntryDetails, plan: InstallPlan | DiscoveryError | None
) -> JSONObject:
    """One entry with what is known of it, what it would run, and what it needs of this machine."""
    return {
        "server": whole_entry_form(details.entry),
        "warnings": [warning.to_json() for warning in details.warnings],
        "prerequisites": list(map(prerequisite_form, details.prerequisites)),
        "plan": plan.to_json()
        if plan is not None and not isinstance(plan, DiscoveryError)
        else None,
        "obstacle": error_form(plan) if isinstance(plan, DiscoveryError) else None,
        "problems": [problem.to_json() for problem in details.problems],
    }


def source_form(state: SourceState) -> JSONObject:
    """A source, and how old its copy is."""
    return {
        "id": state.name,
        "type": state.type,
        "trust": state.trust,
        "entries": state.entries,
        "synced_at": state.synced_at,
        "is_complete": state.is_complete,
        "is_syncing": state.is_syncing,
        "problems": [problem.to_json() for problem in state.problems],
    }


def sync_form(report: SourceReport) -> JSONObject:
    """Return what the synchronisation of a source did."""
    return {
        "id": report.source,
        "was_due": report.was_due,
        "is_complete": report.is_complete,
        "pages": report.pages,
        "added": report.added,
        "updated": report.updated,
        "removed": report.removed,
        "problems": [problem.to_json() for problem in report.problems],
    }


def entry_form(entry: MarketplaceEntry) -> JSONObject:
    """An entry in the list of a search."""
    return {
        "id": entry.id,
        "name": entry.name,
        "title": entry.title,
        "description": entry.description,
        "version": entry.version,
        "publisher": entry.publisher,
        "repository": entry.repository,
        "website": entry.website,
        "published_at": entry.published_at or None,
        "first_published_at": entry.first_published_at or None,
        "updated_at": entry.updated_at or None,
        "status": entry.status,
        "status_message": entry.status_message,
        "trust": entry.trust,
        "is_reviewed": entry.is_reviewed,
        "sources": [{"id": origin.source, "trust": origin.trust} for origin in entry.origins],
        "packages": [
            {
                "type": package.registry_type,
                "identifier": package.identifier,
                "version": package.version,
            }
            for package in entry.packages
        ],
        "remotes": [{"type": remote.type, "url": remote.url} for remote in entry.remotes],
        "tool_count": None if entry.tools is None else len(entry.tools),
        "tags": list(entry.tags),
    }


def whole_entry_form(entry: MarketplaceEntry) -> JSONObject:
    """All that is known of an entry."""
    tools = entry.tools
    return entry_form(entry) | {
        "packages": [_package_form(package) for package in entry.packages],
        "remotes": [_remote_form(remote) for remote in entry.remotes],
        "refused": [
            {"type": offer.registry_type, "identifier": offer.identifier, "reason": offer.reason}
            for offer in entry.refused
        ],
        "tools": None
        if tools is None
        else [{"name": tool.name, "description": tool.description} for tool in tools],
        "versions": [
            {
                "version": note.version,
                "published_at": note.published_at or None,
                "status": note.status,
            }
            for note in entry.versions
        ],
    }


def _package_form(offer: PackageOffer) -> JSONObject:
    return {
        "type": offer.registry_type,
        "identifier": offer.identifier,
        "version": offer.version,
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
        "type": offer.type,
        "url": offer.url,
        "headers": _inputs_form(offer.headers),
        "variables": _inputs_form(offer.variables),
    }


def _inputs_form(inputs: Iterable[Input]) -> list[JSONObject]:
    return [
        {
            "name": offered_input.name,
            "kind": offered_input.kind,
            "description": offered_input.description,
            "value": offered_input.value or None,
            "default": None if offered_input.is_secret else offered_input.default or None,
            "placeholder": offered_input.placeholder or None,
            "choices": list(offered_input.choices),
            "format": offered_input.format,
            "is_required": offered_input.is_required,
            "is_secret": offered_input.is_secret,
            "is_repeated": offered_input.is_repeated,
            "variables": _inputs_form(offered_input.variables),
        }
        for offered_input in inputs
    ]
