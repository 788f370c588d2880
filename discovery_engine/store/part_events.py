"""Which events a change is: what is saved of a server compared with what is to be saved."""

from __future__ import annotations

from collections.abc import Iterator

from discovery_engine.catalog import Entry, ServerPart
from discovery_engine.rules.rule import FOR_REVIEW
from discovery_engine.store.fleet.schedule import HealthChange
from discovery_engine.webhooks.delivery import ServerHealth
from discovery_engine.webhooks.event import WebhookEvent, failing_event, tools_event


def listing_events(before: ServerPart | None, after: ServerPart) -> Iterator[WebhookEvent]:
    """Yield what an observer of the server sees change; nothing without a listing.

    One event for each kind of change, with all tools that it concerns: a server that was deployed
    anew is one message, not a thousand.
    """
    if after.listed_at is None:
        return
    server = after.server
    predecessor = before or ServerPart(server)
    if changes := _changes_of_server(predecessor, after):
        yield WebhookEvent("server.changed", server, {"changes": [*changes]})
    old, new = predecessor.by_name, after.by_name
    common = old.keys() & new.keys()
    changed = {name for name in common if old[name].tool.source != new[name].tool.source}
    held = {name for name in new if _is_held(new[name])}
    was_held = {name for name in old if _is_held(old[name])}
    kinds = {
        "tool.added": new.keys() - old.keys(),
        "tool.changed": changed,
        "tool.removed": old.keys() - new.keys(),
        "tool.held": held - (was_held - changed),
        "tool.released": (was_held & common) - held,
    }
    for kind, names in kinds.items():
        if names:
            yield tools_event(kind, server, [(name, name in held) for name in names])


def health_change(
    part: ServerPart, known: ServerHealth, *, is_new_listing: bool
) -> HealthChange | None:
    """Return the change of a server's health that is an event; None if there is none.

    Each gateway fails for itself: of several only the first one's failure is an event, and after
    another has reached the server only a failure that began later.
    """
    failure = part.failure
    if failure is None:
        if known.failing_at is None or part.listed_at is None:
            return None
        is_later = is_new_listing or part.listed_at > known.failing_at
        return "recovered" if is_later else None
    if known.failing_at is not None:
        return None
    is_later = failure.began is None or known.well_at is None or failure.since > known.well_at
    return "failing" if is_later else None


def failure_event(part: ServerPart) -> WebhookEvent:
    """Build the event of a part whose listing failed."""
    failure = part.failure
    assert failure is not None  # noqa: S101 - the caller has looked
    return failing_event(part.server, failure.code, failure.message, since=failure.since)


def _changes_of_server(before: ServerPart, after: ServerPart) -> list[str]:
    if before.listed_at is None:
        return []
    changes = []
    if before.connection and after.connection and before.connection != after.connection:
        changes.append("connection")
    if before.present_instructions != after.present_instructions:
        changes.append("instructions")
    return changes


def _is_held(entry: Entry) -> bool:
    return entry.verdict.reason in FOR_REVIEW
