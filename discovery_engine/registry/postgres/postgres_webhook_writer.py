"""Writes events for webhooks in a transaction of PostgreSQL; see `registry.webhook_writer`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres import refresh_queries, snapshot_queries, webhook_queries
from discovery_engine.registry.postgres.storable_text import key_of
from discovery_engine.registry.stored_snapshot import stored_parts
from discovery_engine.registry.webhook_rows import NoEvents, WebhookRow
from discovery_engine.registry.webhook_writer import WebhookWriter
from discovery_engine.webhooks.delivery import ServerHealth

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.catalog import ServerPart
    from discovery_engine.webhooks.event import StoredEvent


def event_writer(connection: Connection, scope: str) -> NoEvents:
    """What writes events of a scope in this transaction; nothing if it has no webhook."""
    rows = webhook_queries.rows(connection, scope)
    is_any = any(row.is_active for row in rows)
    return PostgresWebhookWriter(connection, scope, rows) if is_any else NoEvents()


class PostgresWebhookWriter(WebhookWriter):
    def __init__(self, connection: Connection, scope: str, rows: Iterable[WebhookRow]) -> None:
        super().__init__(rows)
        self._connection = connection
        self._scope = scope

    @cached_property
    def _now(self) -> float:
        return refresh_queries.present_time(self._connection)

    def _stored_part(self, server: str) -> tuple[bool, ServerPart | None]:
        row = snapshot_queries.row_of(self._connection, self._scope, server)
        if row is None:
            return self._locked_health(server) is not None, None
        parts = stored_parts(self._scope, [row])
        return bool(parts), parts[0] if parts else None

    def _locked_health(self, server: str) -> ServerHealth | None:
        query = """
            SELECT told_failing_at, told_well_at FROM discovery.servers
            JOIN discovery.scopes ON scopes.id = servers.scope
            WHERE scopes.key = %s AND servers.key = %s FOR UPDATE OF servers
            """
        keys = key_of(self._scope), key_of(server)
        row = self._connection.execute(query, keys).fetchone()
        return ServerHealth(*row) if row else None

    def _set_health(self, server: str, health: ServerHealth) -> None:
        query = """
            UPDATE discovery.servers SET told_failing_at = %s, told_well_at = %s
            FROM discovery.scopes
            WHERE scopes.id = servers.scope AND scopes.key = %s AND servers.key = %s
            """
        values = health.failing_at, health.well_at, key_of(self._scope), key_of(server)
        self._connection.execute(query, values)

    def _add(self, webhook: int, event: StoredEvent) -> None:
        webhook_queries.add(self._connection, webhook, event, self._now)
