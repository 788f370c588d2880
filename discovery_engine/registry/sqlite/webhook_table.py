"""Webhooks and their deliveries in SQLite; `registry.webhook_store` has their contract.

Every step is part of an immediate transaction, so no other process writes between its parts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from discovery_engine.registry.sqlite.encoding import as_text, from_column
from discovery_engine.registry.webhook_export import StoredDelivery, StoredWebhook, WebhookExport
from discovery_engine.registry.webhook_rows import (
    WebhookRow,
    address_of,
    definition_of,
    is_first,
    webhook_changes,
)
from discovery_engine.webhooks.delivery import Delivery, ServerHealth, WebhookState
from discovery_engine.webhooks.delivery_schedule import GIVE_UP_AFTER, MOST_STORED

if TYPE_CHECKING:
    from discovery_engine.config.webhook_settings import WebhookSettings
    from discovery_engine.webhooks.event import StoredEvent


def rows(connection: sqlite3.Connection, scope: str) -> list[WebhookRow]:
    query = """
        SELECT id, name, definition, address, left_at IS NOT NULL, disabled_at IS NOT NULL
        FROM webhooks WHERE scope = ? ORDER BY id
        """
    return [
        WebhookRow(key, name, definition, address, bool(has_left), bool(is_disabled))
        for key, name, definition, address, has_left, is_disabled in connection.execute(
            query, (as_text(scope),)
        )
    ]


def replace_all(
    connection: sqlite3.Connection,
    scope: str,
    webhooks: Iterable[WebhookSettings],
    now: float,
    *,
    keep_others: bool,
) -> None:
    """Have these, and no others unless they are kept; nothing is written where nothing changed."""
    query = "DELETE FROM webhooks WHERE scope = ? AND left_at < ?"
    connection.execute(query, (as_text(scope), now - GIVE_UP_AFTER))
    before = rows(connection, scope)
    changes = webhook_changes(before, webhooks, keep_others=keep_others)
    if not changes:
        return
    query = "UPDATE webhooks SET left_at = ? WHERE id = ?"
    connection.executemany(query, [(now, row.id) for row in changes.gone])
    connection.executemany(
        """
        INSERT INTO webhooks (scope, name, definition, address) VALUES (?, ?, ?, ?)
        ON CONFLICT (scope, name) DO UPDATE SET
            definition = excluded.definition, address = excluded.address, left_at = NULL,
            disabled_at = CASE WHEN address = excluded.address THEN disabled_at END
        """,
        [(as_text(scope), one.name, definition_of(one), address_of(one)) for one in changes.new],
    )
    _begin_anew(connection, scope, before)


def add(connection: sqlite3.Connection, webhook: int, event: StoredEvent, now: float) -> None:
    connection.execute(
        """
        INSERT INTO webhook_deliveries
            (webhook, event_id, event_type, body, stored_at, tried_since, due_at)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        """,
        (webhook, event.id, event.type, event.body, now, now, now),
    )
    query = "SELECT count(*) FROM webhook_deliveries WHERE webhook = ?"
    [count] = connection.execute(query, (webhook,)).fetchone()
    if (too_many := count - MOST_STORED) > 0:
        query = """
            DELETE FROM webhook_deliveries WHERE id IN (
                SELECT id FROM webhook_deliveries WHERE webhook = ? ORDER BY id LIMIT ?
            )
            """
        connection.execute(query, (webhook, too_many))
        query = "UPDATE webhooks SET dropped = dropped + ? WHERE id = ?"
        connection.execute(query, (too_many, webhook))


def states(connection: sqlite3.Connection, scope: str) -> list[WebhookState]:
    query = """
        SELECT name, count(due_at), count(deliveries.id) - count(due_at), delivered, dropped,
            min(CASE WHEN due_at IS NOT NULL THEN stored_at END), delivered_at, failed_at, failure,
            disabled_at
        FROM webhooks
        LEFT JOIN webhook_deliveries AS deliveries ON deliveries.webhook = webhooks.id
        WHERE scope = ? AND left_at IS NULL GROUP BY webhooks.id ORDER BY name
        """
    return [WebhookState(*row) for row in connection.execute(query, (as_text(scope),))]


def due(connection: sqlite3.Connection, scope: str, now: float) -> list[str]:
    query = """
        SELECT name FROM webhooks WHERE scope = ? AND EXISTS (
            SELECT 1 FROM webhook_deliveries WHERE webhook = webhooks.id AND due_at <= ?
        )
        """
    return [name for (name,) in connection.execute(query, (as_text(scope), now))]


def claim(
    connection: sqlite3.Connection, scope: str, webhook: str, limit: int, lease: float, now: float
) -> list[Delivery]:
    query = """
        SELECT id, event_id, event_type, body, attempts + 1, fence + 1, ? - tried_since
        FROM webhook_deliveries
        WHERE webhook = (SELECT id FROM webhooks WHERE scope = ? AND name = ?) AND due_at <= ?
        ORDER BY due_at, id LIMIT ?
        """
    found = connection.execute(query, (now, as_text(scope), webhook, now, limit)).fetchall()
    query = """
        UPDATE webhook_deliveries SET attempts = attempts + 1, fence = fence + 1, due_at = ?
        WHERE id = ?
        """
    connection.executemany(query, [(now + lease, key) for key, *_ in found])
    return [Delivery(key, webhook, *rest) for key, *rest in found]


def finish(connection: sqlite3.Connection, delivery: Delivery, now: float) -> bool:
    webhook = _webhook_of(connection, delivery)
    if webhook is None:
        return False
    connection.execute("DELETE FROM webhook_deliveries WHERE id = ?", (delivery.id,))
    query = """
        UPDATE webhooks SET delivered = delivered + 1, delivered_at = ?, failure = '' WHERE id = ?
        """
    connection.execute(query, (now, webhook))
    return True


def fail(
    connection: sqlite3.Connection,
    delivery: Delivery,
    reason: str,
    retry_in: float | None,
    now: float,
) -> bool:
    webhook = _webhook_of(connection, delivery)
    if webhook is None:
        return False
    due_at = None if retry_in is None else now + retry_in
    query = "UPDATE webhook_deliveries SET due_at = ? WHERE id = ?"
    connection.execute(query, (due_at, delivery.id))
    query = "UPDATE webhooks SET failed_at = ?, failure = ? WHERE id = ?"
    connection.execute(query, (now, as_text(reason), webhook))
    return True


def disable(
    connection: sqlite3.Connection,
    scope: str,
    webhook: str,
    reason: str,
    address: str,
    now: float,
) -> int:
    query = """
        UPDATE webhooks SET disabled_at = ?, failed_at = ?, failure = ?
        WHERE scope = ? AND name = ? AND address = ? RETURNING id
        """
    values = now, now, as_text(reason), as_text(scope), webhook, address
    gone = connection.execute(query, values).fetchone()
    if gone is None:
        return 0
    query = """
        UPDATE webhook_deliveries SET due_at = NULL, fence = fence + 1
        WHERE due_at IS NOT NULL AND webhook = ?
        """
    return connection.execute(query, gone).rowcount


def retry(
    connection: sqlite3.Connection, scope: str, webhooks: Collection[str] | None, now: float
) -> int:
    count, before = 0, rows(connection, scope)
    for row in before:
        if webhooks is not None and row.name not in webhooks:
            continue
        connection.execute("UPDATE webhooks SET disabled_at = NULL WHERE id = ?", (row.id,))
        query = """
            UPDATE webhook_deliveries SET due_at = ?, tried_since = ?, attempts = 0
            WHERE webhook = ? AND due_at IS NULL
            """
        count += connection.execute(query, (now, now, row.id)).rowcount
    _begin_anew(connection, scope, before)
    return count


def export(connection: sqlite3.Connection, scope: str) -> WebhookExport:
    query = f"SELECT {_COLUMNS} FROM webhooks WHERE scope = ? ORDER BY id"  # noqa: S608 - constants
    webhooks = [
        StoredWebhook(*[*row, from_column(failure)])
        for *row, failure in connection.execute(query, (as_text(scope),))
    ]
    query = """
        SELECT servers.name, told_failing_at, told_well_at FROM servers
        JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.name = ? AND coalesce(told_failing_at, told_well_at) IS NOT NULL
        """
    rows = connection.execute(query, (as_text(scope),))
    health = {from_column(server): ServerHealth(*times) for server, *times in rows}
    return WebhookExport(tuple(webhooks), health)


def replace(connection: sqlite3.Connection, scope: str, export: WebhookExport) -> None:
    """Have these webhooks, without deliveries, and no others."""
    connection.execute("DELETE FROM webhooks WHERE scope = ?", (as_text(scope),))
    connection.executemany(
        f"INSERT INTO webhooks (scope, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        [(as_text(scope), *astuple(one)[:-1], as_text(one.failure)) for one in export.webhooks],
    )
    connection.executemany(
        """
        UPDATE servers SET told_failing_at = ?, told_well_at = ?
        WHERE name = ? AND scope = (SELECT id FROM scopes WHERE name = ?)
        """,
        [
            (*astuple(health), as_text(server), as_text(scope))
            for server, health in export.health.items()
        ],
    )


def deliveries(connection: sqlite3.Connection, scope: str) -> list[StoredDelivery]:
    """The oldest first."""
    query = """
        SELECT name, event_id, event_type, body, stored_at, tried_since, due_at, attempts
        FROM webhook_deliveries JOIN webhooks ON webhooks.id = webhook
        WHERE scope = ? ORDER BY webhook_deliveries.id
        """
    return [StoredDelivery(*row) for row in connection.execute(query, (as_text(scope),))]


def add_all(connection: sqlite3.Connection, scope: str, stored: Iterable[StoredDelivery]) -> None:
    connection.executemany(
        """
        INSERT INTO webhook_deliveries
            (webhook, event_id, event_type, body, stored_at, tried_since, due_at, attempts)
        SELECT id, ?, ?, ?, ?, ?, ?, ? FROM webhooks WHERE scope = ? AND name = ?
        """,
        [(*astuple(one)[1:], as_text(scope), one.webhook) for one in stored],
    )


_COLUMNS = """
    name, definition, address, left_at, disabled_at, delivered, dropped, delivered_at, failed_at,
    failure
    """


def _begin_anew(connection: sqlite3.Connection, scope: str, before: Iterable[WebhookRow]) -> None:
    """Forget what was sent of each server's health, if nothing was noted until now."""
    if is_first(before, rows(connection, scope)):
        query = """
            UPDATE servers SET told_failing_at = NULL, told_well_at = NULL
            WHERE scope = (SELECT id FROM scopes WHERE name = ?)
                AND (told_failing_at IS NOT NULL OR told_well_at IS NOT NULL)
            """
        connection.execute(query, (as_text(scope),))


def _webhook_of(connection: sqlite3.Connection, delivery: Delivery) -> int | None:
    """The webhook of a delivery that no other process has claimed since."""
    query = "SELECT webhook FROM webhook_deliveries WHERE id = ? AND fence = ?"
    row = connection.execute(query, (delivery.id, delivery.fence)).fetchone()
    return row[0] if row else None
