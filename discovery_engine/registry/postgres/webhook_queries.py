"""Webhooks and their deliveries in PostgreSQL; `registry.webhook_store` has their contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
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
    from psycopg import Connection

    from discovery_engine.config.webhook_settings import WebhookSettings
    from discovery_engine.webhooks.event import StoredEvent

_NOW = "extract(epoch FROM clock_timestamp())::float8"


def rows(connection: Connection, scope: str) -> list[WebhookRow]:
    query = """
        SELECT id, name, definition, address, left_at IS NOT NULL, disabled_at IS NOT NULL
        FROM discovery.webhooks WHERE scope_key = %s ORDER BY id
        """
    return [WebhookRow(*row) for row in connection.execute(query, (key_of(scope),))]


def replace_all(
    connection: Connection, scope: str, webhooks: Iterable[WebhookSettings], *, keep_others: bool
) -> None:
    """Have these, and no others unless they are kept; nothing is written where nothing changed."""
    query = f"DELETE FROM discovery.webhooks WHERE scope_key = %s AND left_at < {_NOW} - %s"  # noqa: S608
    connection.execute(query, (key_of(scope), GIVE_UP_AFTER))
    before = rows(connection, scope)
    changes = webhook_changes(before, webhooks, keep_others=keep_others)
    if not changes:
        return
    connection.execute(
        f"UPDATE discovery.webhooks SET left_at = {_NOW} WHERE id = ANY(%s)",  # noqa: S608
        ([row.id for row in changes.gone],),
    )
    for webhook in changes.new:
        connection.execute(
            """
            INSERT INTO discovery.webhooks (key, scope_key, scope, name, definition, address)
            VALUES (%s, %s, %s, %s, %s, %s)
            ON CONFLICT (key) DO UPDATE SET
                definition = excluded.definition, address = excluded.address, left_at = NULL,
                disabled_at = CASE
                    WHEN webhooks.address = excluded.address THEN webhooks.disabled_at
                END
            """,
            (
                key_of(scope, webhook.name),
                key_of(scope),
                to_column(scope),
                webhook.name,
                definition_of(webhook),
                address_of(webhook),
            ),
        )
    _begin_anew(connection, scope, before)


def add(connection: Connection, webhook: int, event: StoredEvent, now: float) -> None:
    connection.execute(
        """
        INSERT INTO discovery.webhook_deliveries
            (webhook, event_id, event_type, body, stored_at, tried_since, due_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s)
        """,
        (webhook, event.id, event.type, event.body, now, now, now),
    )
    dropped = connection.execute(
        """
        DELETE FROM discovery.webhook_deliveries WHERE id IN (
            SELECT id FROM discovery.webhook_deliveries WHERE webhook = %(webhook)s
            ORDER BY id LIMIT greatest((
                SELECT count(*) FROM discovery.webhook_deliveries WHERE webhook = %(webhook)s
            ) - %(most)s, 0) FOR UPDATE SKIP LOCKED
        )
        """,
        {"webhook": webhook, "most": MOST_STORED},
    ).rowcount
    if dropped:
        query = "UPDATE discovery.webhooks SET dropped = dropped + %s WHERE id = %s"
        connection.execute(query, (dropped, webhook))


def states(connection: Connection, scope: str) -> list[WebhookState]:
    query = """
        SELECT name, count(due_at), count(deliveries.id) - count(due_at), delivered, dropped,
            min(stored_at) FILTER (WHERE due_at IS NOT NULL), delivered_at, failed_at, failure,
            disabled_at
        FROM discovery.webhooks
        LEFT JOIN discovery.webhook_deliveries AS deliveries ON deliveries.webhook = webhooks.id
        WHERE scope_key = %s AND left_at IS NULL GROUP BY webhooks.id ORDER BY name COLLATE "C"
        """
    return [WebhookState(*row) for row in connection.execute(query, (key_of(scope),))]


def due(connection: Connection, scope: str) -> list[str]:
    query = f"""
        SELECT name FROM discovery.webhooks WHERE scope_key = %s AND EXISTS (
            SELECT 1 FROM discovery.webhook_deliveries
            WHERE webhook = webhooks.id AND due_at <= {_NOW}
        )
        """  # noqa: S608 - made of constants
    return [name for (name,) in connection.execute(query, (key_of(scope),))]


def claim(
    connection: Connection, scope: str, webhook: str, limit: int, lease: float
) -> list[Delivery]:
    query = f"""
        WITH clock AS MATERIALIZED (SELECT {_NOW} AS now),
        due AS (
            SELECT id FROM discovery.webhook_deliveries
            WHERE webhook = (SELECT id FROM discovery.webhooks WHERE key = %(key)s)
                AND due_at <= (SELECT now FROM clock)
            ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        )
        UPDATE discovery.webhook_deliveries AS delivery
        SET attempts = attempts + 1, fence = fence + 1, due_at = now + %(lease)s
        FROM due, clock WHERE delivery.id = due.id
        RETURNING delivery.id, event_id, event_type, body, attempts, fence, now - tried_since
        """  # noqa: S608 - as above
    values = {"key": key_of(scope, webhook), "limit": limit, "lease": lease}
    found = connection.execute(query, values).fetchall()
    return [Delivery(key, webhook, *rest) for key, *rest in sorted(found)]


def finish(connection: Connection, delivery: Delivery) -> bool:
    query = (
        "DELETE FROM discovery.webhook_deliveries WHERE id = %s AND fence = %s RETURNING webhook"
    )
    found = connection.execute(query, (delivery.id, delivery.fence)).fetchone()
    if found is None:
        return False
    query = f"""
        UPDATE discovery.webhooks
        SET delivered = delivered + 1, delivered_at = {_NOW}, failure = '' WHERE id = %s
        """  # noqa: S608 - as above
    connection.execute(query, found)
    return True


def fail(connection: Connection, delivery: Delivery, reason: str, retry_in: float | None) -> bool:
    query = f"""
        UPDATE discovery.webhook_deliveries SET due_at = {_NOW} + %s
        WHERE id = %s AND fence = %s RETURNING webhook
        """  # noqa: S608 - as above
    found = connection.execute(query, (retry_in, delivery.id, delivery.fence)).fetchone()
    if found is None:
        return False
    query = f"UPDATE discovery.webhooks SET failed_at = {_NOW}, failure = %s WHERE id = %s"  # noqa: S608
    connection.execute(query, (to_column(reason), *found))
    return True


def disable(connection: Connection, scope: str, webhook: str, reason: str, address: str) -> int:
    query = f"""
        WITH gone AS (
            UPDATE discovery.webhooks SET disabled_at = {_NOW}, failed_at = {_NOW}, failure = %s
            WHERE key = %s AND address = %s RETURNING id
        )
        UPDATE discovery.webhook_deliveries SET due_at = NULL, fence = fence + 1
        FROM gone WHERE webhook = gone.id AND due_at IS NOT NULL
        """  # noqa: S608 - as above
    values = to_column(reason), key_of(scope, webhook), address
    return connection.execute(query, values).rowcount


def retry(connection: Connection, scope: str, webhooks: Collection[str] | None) -> int:
    chosen = "TRUE" if webhooks is None else "key = ANY(%(keys)s)"
    values = {
        "scope": key_of(scope),
        "keys": [key_of(scope, name) for name in webhooks or ()],
    }
    before = rows(connection, scope)
    connection.execute(
        f"""
        UPDATE discovery.webhooks SET disabled_at = NULL
        WHERE scope_key = %(scope)s AND disabled_at IS NOT NULL AND {chosen}
        """,  # noqa: S608 - as above
        values,
    )
    _begin_anew(connection, scope, before)
    query = f"""
        UPDATE discovery.webhook_deliveries
        SET due_at = {_NOW}, tried_since = {_NOW}, attempts = 0
        WHERE due_at IS NULL AND webhook IN (
            SELECT id FROM discovery.webhooks WHERE scope_key = %(scope)s AND {chosen}
        )
        """  # noqa: S608 - as above
    return connection.execute(query, values).rowcount


def export(connection: Connection, scope: str) -> WebhookExport:
    query = f"SELECT {_COLUMNS} FROM discovery.webhooks WHERE scope_key = %s ORDER BY id"  # noqa: S608
    webhooks = [
        StoredWebhook(*[*row, from_column(failure)])
        for *row, failure in connection.execute(query, (key_of(scope),))
    ]
    query = """
        SELECT servers.name, told_failing_at, told_well_at FROM discovery.servers
        JOIN discovery.scopes ON scopes.id = servers.scope
        WHERE scopes.key = %s AND coalesce(told_failing_at, told_well_at) IS NOT NULL
        """
    rows = connection.execute(query, (key_of(scope),))
    health = {from_column(server): ServerHealth(*times) for server, *times in rows}
    return WebhookExport(tuple(webhooks), health)


def replace(connection: Connection, scope: str, export: WebhookExport) -> None:
    """Have these webhooks, without deliveries, and no others."""
    connection.execute("DELETE FROM discovery.webhooks WHERE scope_key = %s", (key_of(scope),))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"""
            INSERT INTO discovery.webhooks (key, scope_key, scope, {_COLUMNS})
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """,  # noqa: S608 - as above
            [
                (
                    key_of(scope, one.name), key_of(scope), to_column(scope),
                    *astuple(one)[:-1], to_column(one.failure),
                )
                for one in export.webhooks
            ],
        )  # fmt: skip
        cursor.executemany(
            """
            UPDATE discovery.servers SET told_failing_at = %s, told_well_at = %s
            FROM discovery.scopes
            WHERE scopes.id = servers.scope AND scopes.key = %s AND servers.key = %s
            """,
            [
                (*astuple(health), key_of(scope), key_of(server))
                for server, health in export.health.items()
            ],
        )


def deliveries(connection: Connection, scope: str) -> list[StoredDelivery]:
    """The oldest first."""
    query = """
        SELECT name, event_id, event_type, body, stored_at, tried_since, due_at, attempts
        FROM discovery.webhook_deliveries JOIN discovery.webhooks ON webhooks.id = webhook
        WHERE scope_key = %s ORDER BY webhook_deliveries.id
        """
    return [StoredDelivery(*row) for row in connection.execute(query, (key_of(scope),))]


def add_all(connection: Connection, scope: str, stored: Iterable[StoredDelivery]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            INSERT INTO discovery.webhook_deliveries
                (webhook, event_id, event_type, body, stored_at, tried_since, due_at, attempts)
            SELECT id, %s, %s, %s, %s, %s, %s, %s FROM discovery.webhooks WHERE key = %s
            """,
            [(*astuple(one)[1:], key_of(scope, one.webhook)) for one in stored],
        )


_COLUMNS = """
    name, definition, address, left_at, disabled_at, delivered, dropped, delivered_at, failed_at,
    failure
    """


def _begin_anew(connection: Connection, scope: str, before: Iterable[WebhookRow]) -> None:
    """Forget what was sent of each server's health, if nothing was noted until now."""
    if is_first(before, rows(connection, scope)):
        query = """
            UPDATE discovery.servers SET told_failing_at = NULL, told_well_at = NULL
            FROM discovery.scopes
            WHERE scopes.id = servers.scope AND scopes.key = %s
                AND (told_failing_at IS NOT NULL OR told_well_at IS NOT NULL)
            """
        connection.execute(query, (key_of(scope),))
