"""Writes events for webhooks within the transaction that makes the change they are about.

So an event is stored if and only if its change is: a crash before the commit loses both, and one
after it loses none. Of several gateways that save the same listing the first makes the events; for
the others there is no difference any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from discovery_engine.store.fleet import schedule
from discovery_engine.store.part_events import (
    failure_event,
    health_change,
    listing_events,
)
from discovery_engine.store.stored_snapshot import stored_parts
from discovery_engine.store.stored_text import key_of
from discovery_engine.store.tables import snapshot_table, webhook_table
from discovery_engine.store.webhook_rows import NoEvents, WebhookRow
from discovery_engine.webhooks.delivery import ServerHealth
from discovery_engine.webhooks.event import (
    StoredEvent,
    WebhookEvent,
    failing_event,
    is_wanted,
    stored_event,
)

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.webhook_settings import WebhookSettings
    from discovery_engine.store.fleet.refresh_job import RefreshJob
    from discovery_engine.store.statements import Connection


class WebhookWriter(NoEvents):
    """For one scope and one transaction."""

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
                self._publish(listing_events(before, part))

    def note_health(self, parts: Iterable[ServerPart], *, are_new_listings: bool) -> None:
        for part in parts:
            health = self._locked_health(part.server)
            if health is None:
                continue
            change = health_change(part, health, is_new_listing=are_new_listings)
            if change == "failing":
                self._set_health(part.server, ServerHealth(self._now, health.well_at))
                self._publish([failure_event(part)])
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
        """Return whether the saved part of a server is known, and it; None if never listed."""
        row = snapshot_table.row_of(self._connection, self._scope, server)
        if row is None:
            return self._locked_health(server) is not None, None
        parts = stored_parts(self._scope, [row])
        return bool(parts), parts[0] if parts else None

    def _locked_health(self, server: str) -> ServerHealth | None:
        """The health of a server as it was sent last; None if the saved settings do not name it."""
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
        """Store a delivery, and drop the oldest ones if there are too many."""
        webhook_table.add(self._connection, webhook, event)
