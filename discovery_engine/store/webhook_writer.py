"""Writes events for webhooks in the transaction of the change that they report.

So an event is stored if and only if its change is: a crash before the commit loses both, a crash
after it loses neither. If several gateways save the same listing, only the first one writes events,
since the others see no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from discovery_engine.catalog import Entry, ServerPart
from discovery_engine.rules.rule import FOR_REVIEW
from discovery_engine.store import schedule
from discovery_engine.store.schedule import HealthChange
from discovery_engine.store.snapshot import stored_parts
from discovery_engine.store.stored_text import key_of
from discovery_engine.store.tables import snapshot_table, webhook_table
from discovery_engine.store.tables.webhook_table import NoEvents, WebhookRow
from discovery_engine.store.webhooks import (
    ServerHealth,
    StoredEvent,
    WebhookEvent,
    failing_event,
    is_wanted,
    stored_event,
    tools_event,
)

if TYPE_CHECKING:
    from discovery_engine.config.webhook_settings import WebhookSettings
    from discovery_engine.store.refresh_job import RefreshJob
    from discovery_engine.store.statements import Connection


class WebhookWriter(NoEvents):
    """Writes the events of one scope in one transaction, for its active webhooks."""

    def __init__(self, connection: Connection, scope: str, rows: Iterable[WebhookRow]) -> None:
        self._connection = connection
        self._scope = scope
        self._subscribers: list[tuple[WebhookRow, WebhookSettings]] = [
            (row, row.settings) for row in rows if row.is_active
        ]

    def note_servers(self, added: Iterable[str], removed: Iterable[str]) -> None:
        events = [WebhookEvent("server.added", name, {}) for name in added]
        self._publish([*events, *(WebhookEvent("server.removed", name, {}) for name in removed)])

    def note_listings(self, parts: Iterable[ServerPart]) -> None:
        for part in parts:
            is_known, before = self._stored_part(part.server)
            if is_known:
                self._publish(_listing_events(before, part))

    def note_health(self, parts: Iterable[ServerPart], *, are_new_listings: bool) -> None:
        for part in parts:
            health = self._locked_health(part.server)
            if health is None:
                continue
            change = _health_change(part, health, is_new_listing=are_new_listings)
            if change == "failing":
                self._set_health(part.server, ServerHealth(self._now, health.well_at))
                self._publish([_failure_event(part)])
            elif change == "recovered":
                self._recover(part.server)

    def note_jobs(self, steps: Iterable[tuple[RefreshJob, RefreshJob]]) -> None:
        for before, after in steps:
            change = schedule.health_change(before, after)
            if change == "failing":
                self._fail(after)
            elif change == "recovered":
                health = self._locked_health(after.server)
                if health and health.failing_at is not None:
                    self._recover(after.server)

    def note_lost(self, jobs: Iterable[RefreshJob]) -> None:
        for job in jobs:
            self._fail(job)

    def _fail(self, job: RefreshJob) -> None:
        health = self._locked_health(job.server)
        if health and health.failing_at is None:
            self._set_health(job.server, ServerHealth(self._now, health.well_at))
            code, message = job.error_code, job.error_message
            self._publish([failing_event(job.server, code, message, since=self._now)])

    def _recover(self, server: str) -> None:
        self._set_health(server, ServerHealth(None, self._now))
        self._publish([WebhookEvent("server.recovered", server, {})])

    def _publish(self, events: Iterable[WebhookEvent]) -> None:
        for event in events:
            ids = [row.id for row, settings in self._subscribers if is_wanted(settings, event)]
            if ids:
                stored = stored_event(event, at=self._now)
                for webhook in ids:
                    self._add(webhook, stored)

    @cached_property
    def _now(self) -> float:
        return self._connection.now()

    def _stored_part(self, server: str) -> tuple[bool, ServerPart | None]:
        """Return whether the saved state of a server is known, and its part, None if unlisted."""
        row = snapshot_table.row_of(self._connection, self._scope, server)
        if row is None:
            return self._locked_health(server) is not None, None
        parts = stored_parts(self._scope, [row])
        return bool(parts), parts[0] if parts else None

    def _locked_health(self, server: str) -> ServerHealth | None:
        """Return the health that was last reported, and lock it; None for an unknown server."""
        statement = """
            SELECT told_failing_at, told_well_at FROM servers
            WHERE scope = (SELECT id FROM scopes WHERE key = ?) AND key = ?
            """
        keys = key_of(self._scope), key_of(server)
        row = self._connection.execute(statement + self._connection.for_update, keys).fetchone()
        return ServerHealth(*row) if row else None

    def _set_health(self, server: str, health: ServerHealth) -> None:
        statement = """
            UPDATE servers SET told_failing_at = ?, told_well_at = ?
            WHERE scope = (SELECT id FROM scopes WHERE key = ?) AND key = ?
            """
        keys = key_of(self._scope), key_of(server)
        self._connection.execute(statement, (health.failing_at, health.well_at, *keys))

    def _add(self, webhook: int, event: StoredEvent) -> None:
        """Store a delivery of an event to a webhook."""
        webhook_table.add(self._connection, webhook, event)


def _listing_events(before: ServerPart | None, after: ServerPart) -> Iterator[WebhookEvent]:
    """Yield the events of a new listing; none if `after` was never listed.

    There is one event for each kind of change, with all tools concerned, so that a new version of a
    server makes a few messages, not a thousand.
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


def _health_change(
    part: ServerPart, health: ServerHealth, *, is_new_listing: bool
) -> HealthChange | None:
    """Return the change of a server's health to report; None if there is none.

    Each gateway has failures of its own. Only the first of them is reported, and once any gateway
    has reached the server, only a failure that began later.
    """
    failure = part.failure
    if failure is None:
        if health.failing_at is None or part.listed_at is None:
            return None
        is_later = is_new_listing or part.listed_at > health.failing_at
        return "recovered" if is_later else None
    if health.failing_at is not None:
        return None
    is_later = failure.began is None or health.well_at is None or failure.since > health.well_at
    return "failing" if is_later else None


def _failure_event(part: ServerPart) -> WebhookEvent:
    """Build the event for a part whose listing failed."""
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
