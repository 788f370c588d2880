"""Writes events for webhooks in a transaction of SQLite; see `registry.webhook_writer`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from discovery_engine.registry.sqlite import snapshot_tables, webhook_table
from discovery_engine.registry.sqlite.encoding import as_text
from discovery_engine.registry.stored_snapshot import stored_parts
from discovery_engine.registry.webhook_writer import WebhookWriter
from discovery_engine.webhooks.delivery import ServerHealth

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.registry.webhook_rows import WebhookRow
    from discovery_engine.webhooks.event import StoredEvent


class SqliteWebhookWriter(WebhookWriter):
    def __init__(
        self,
        connection: sqlite3.Connection,
        scope: str,
        rows: Iterable[WebhookRow],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(rows)
        self._connection = connection
        self._scope = scope
        self._clock = clock

    @cached_property
    def _now(self) -> float:
        return self._clock()

    def _stored_part(self, server: str) -> tuple[bool, ServerPart | None]:
        row = snapshot_tables.row_of(self._connection, self._scope, server)
        if row is None:
            return self._locked_health(server) is not None, None
        parts = stored_parts(self._scope, [row])
        return bool(parts), parts[0] if parts else None

    def _locked_health(self, server: str) -> ServerHealth | None:
        query = """
            SELECT told_failing_at, told_well_at FROM servers
            JOIN scopes ON scopes.id = servers.scope WHERE scopes.name = ? AND servers.name = ?
            """
        names = as_text(self._scope), as_text(server)
        row = self._connection.execute(query, names).fetchone()
        return ServerHealth(*row) if row else None

    def _set_health(self, server: str, health: ServerHealth) -> None:
        query = """
            UPDATE servers SET told_failing_at = ?, told_well_at = ?
            WHERE name = ? AND scope = (SELECT id FROM scopes WHERE name = ?)
            """
        names = as_text(server), as_text(self._scope)
        self._connection.execute(query, (health.failing_at, health.well_at, *names))

    def _add(self, webhook: int, event: StoredEvent) -> None:
        webhook_table.add(self._connection, webhook, event, self._now)
