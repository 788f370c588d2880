"""The tables of webhooks and their deliveries; `store.webhooks` describes both."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.store.stored_text import key_of, to_column
from discovery_engine.store.webhooks import GIVE_UP_AFTER, MOST_STORED, Delivery, WebhookState

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.store.refresh_job import RefreshJob
    from discovery_engine.store.statements import Connection
    from discovery_engine.store.webhooks import StoredEvent


class WebhookRow(Struct, frozen=True):
    """A row of the table of webhooks."""

    id: int
    name: str
    definition: str
    """Its settings as JSON, without secrets."""
    address: str
    """The digest of its URL as configured; a webhook with a new one is enabled again."""
    has_left: bool
    """True if the saved settings do not contain it any more."""
    is_disabled: bool
    """True if its receiver answered that it is gone."""

    @property
    def is_active(self) -> bool:
        """True if events are stored for it."""
        return not (self.has_left or self.is_disabled)

    @property
    def settings(self) -> WebhookSettings:
        return msgspec.json.decode(self.definition, type=WebhookSettings)


def _definition_of(webhook: WebhookSettings) -> str:
    """Encode a webhook as JSON, without anything that may be secret."""
    return msgspec.json.encode(webhook.without_secrets()).decode()


def address_of(webhook: WebhookSettings) -> str:
    """Return the digest of a webhook's URL, 32 hexadecimal digits."""
    return blake2b(webhook.url.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class WebhookChanges(Struct, frozen=True):
    """The changes that bring the stored webhooks of a scope in line with its settings."""

    gone: tuple[WebhookRow, ...]
    """The rows to mark as gone."""
    new: tuple[WebhookSettings, ...]
    """The webhooks to insert or update."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.new)


def _webhook_changes(
    known: Iterable[WebhookRow], webhooks: Iterable[WebhookSettings], *, keep_others: bool
) -> WebhookChanges:
    """Compare the stored webhooks with the settings; removed and disabled ones are gone.

    Their deliveries stay for a while, since a gateway with an older configuration may still send
    them, or this one if the webhooks come back. With `keep_others` none is gone.
    """
    rows = {row.name: row for row in known}
    settings = {webhook.name: webhook for webhook in webhooks if webhook.enabled}
    names = rows.keys() if keep_others else settings.keys()
    gone = (row for row in rows.values() if row.name not in names and not row.has_left)
    new = (
        webhook for webhook in settings.values() if not _is_stored(webhook, rows.get(webhook.name))
    )
    return WebhookChanges(tuple(gone), tuple(new))


def _is_stored(webhook: WebhookSettings, row: WebhookRow | None) -> bool:
    if row is None or row.has_left:
        return False
    return (row.definition, row.address) == (_definition_of(webhook), address_of(webhook))


def _is_first(before: Iterable[WebhookRow], after: Iterable[WebhookRow]) -> bool:
    """Return whether the first webhook has become active: some in `after`, none in `before`.

    The recorded health of servers is out of date then.
    """
    return any(row.is_active for row in after) and not any(row.is_active for row in before)


class NoEvents:
    """The null object for `webhook_writer.WebhookWriter`, for a scope without webhooks."""

    def note_servers(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Write events for servers that were added to the settings, or removed from them."""

    def note_listings(self, parts: Iterable[ServerPart]) -> None:
        """Write events for the changes that parts bring; call it before they are saved."""

    def note_health(self, parts: Iterable[ServerPart], *, are_new_listings: bool) -> None:
        """Write events for servers that start to fail for a gateway, or recover."""

    def note_jobs(self, steps: Iterable[tuple[RefreshJob, RefreshJob]]) -> None:
        """Write events for servers that start to fail for a worker, or recover.

        Each step is a job before and after it.
        """

    def note_lost(self, jobs: Iterable[RefreshJob]) -> None:
        """Write events for jobs that are dead because they repeatedly lost their worker."""


def rows(connection: Connection, scope: str) -> list[WebhookRow]:
    query = """
        SELECT id, name, definition, address, left_at IS NOT NULL, disabled_at IS NOT NULL
        FROM webhooks WHERE scope_key = ? ORDER BY id
        """
    return [
        WebhookRow(key, name, definition, address, bool(has_left), bool(is_disabled))
        for key, name, definition, address, has_left, is_disabled in connection.execute(
            query, (key_of(scope),)
        )
    ]


def replace_all(
    connection: Connection,
    scope: str,
    webhooks: Iterable[WebhookSettings],
    *,
    keep_others: bool,
) -> None:
    """Bring the stored webhooks in line with the settings; write only what has changed.

    Webhooks that the settings lack are marked as gone unless `keep_others` is set. Those that have
    been gone for `GIVE_UP_AFTER` seconds are deleted.
    """
    now = connection.now()
    query = "DELETE FROM webhooks WHERE scope_key = ? AND left_at < ?"
    connection.execute(query, (key_of(scope), now - GIVE_UP_AFTER))
    before = rows(connection, scope)
    changes = _webhook_changes(before, webhooks, keep_others=keep_others)
    if not changes:
        return
    query = "UPDATE webhooks SET left_at = ? WHERE id = ?"
    connection.executemany(query, [(now, row.id) for row in changes.gone])
    connection.executemany(
        """
        INSERT INTO webhooks (key, scope_key, scope, name, definition, address)
        VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET
            definition = excluded.definition, address = excluded.address, left_at = NULL,
            disabled_at = CASE
                WHEN webhooks.address = excluded.address THEN webhooks.disabled_at
            END
        """,
        [
            (*_names(scope, webhook.name), _definition_of(webhook), address_of(webhook))
            for webhook in changes.new
        ],
    )
    _begin_anew(connection, scope, before)


def add(connection: Connection, webhook: int, event: StoredEvent) -> None:
    """Store a delivery that is due now; drop the oldest ones beyond `MOST_STORED`."""
    now = connection.now()
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
        dropped = connection.execute(query, (webhook, too_many)).rowcount
        query = "UPDATE webhooks SET dropped = dropped + ? WHERE id = ?"
        connection.execute(query, (dropped, webhook))


def states(connection: Connection, scope: str) -> list[WebhookState]:
    query = """
        SELECT name, count(due_at), count(deliveries.id) - count(due_at), delivered, dropped,
            min(CASE WHEN due_at IS NOT NULL THEN stored_at END), delivered_at, failed_at, failure,
            disabled_at
        FROM webhooks
        LEFT JOIN webhook_deliveries AS deliveries ON deliveries.webhook = webhooks.id
        WHERE scope_key = ? AND left_at IS NULL GROUP BY webhooks.id
        """
    states = [WebhookState(*row) for row in connection.execute(query, (key_of(scope),))]
    return sorted(states, key=lambda state: state.name)


def due(connection: Connection, scope: str) -> list[str]:
    query = """
        SELECT name FROM webhooks WHERE scope_key = ? AND EXISTS (
            SELECT 1 FROM webhook_deliveries WHERE webhook = webhooks.id AND due_at <= ?
        )
        """
    return [name for (name,) in connection.execute(query, (key_of(scope), connection.now()))]


def claim(
    connection: Connection, scope: str, webhook: str, limit: int, lease: float
) -> list[Delivery]:
    now = connection.now()
    query = """
        SELECT id, event_id, event_type, body, attempts + 1, fence + 1, ? - tried_since
        FROM webhook_deliveries
        WHERE webhook = (SELECT id FROM webhooks WHERE key = ?) AND due_at <= ?
        ORDER BY due_at, id LIMIT ?
        """
    values = now, key_of(scope, webhook), now, limit
    claimed = connection.execute(query + connection.skip_locked, values).fetchall()
    query = """
        UPDATE webhook_deliveries SET attempts = attempts + 1, fence = fence + 1, due_at = ?
        WHERE id = ?
        """
    connection.executemany(query, [(now + lease, key) for key, *_ in claimed])
    return [Delivery(key, webhook, *rest) for key, *rest in claimed]


def finish(connection: Connection, delivery: Delivery) -> bool:
    query = "DELETE FROM webhook_deliveries WHERE id = ? AND fence = ? RETURNING webhook"
    row = connection.execute(query, (delivery.id, delivery.fence)).fetchone()
    if row is None:
        return False
    query = """
        UPDATE webhooks SET delivered = delivered + 1, delivered_at = ?, failure = '' WHERE id = ?
        """
    connection.execute(query, (connection.now(), *row))
    return True


def fail(connection: Connection, delivery: Delivery, reason: str, retry_in: float | None) -> bool:
    now = connection.now()
    due_at = None if retry_in is None else now + retry_in
    query = "UPDATE webhook_deliveries SET due_at = ? WHERE id = ? AND fence = ? RETURNING webhook"
    row = connection.execute(query, (due_at, delivery.id, delivery.fence)).fetchone()
    if row is None:
        return False
    query = "UPDATE webhooks SET failed_at = ?, failure = ? WHERE id = ?"
    connection.execute(query, (now, to_column(reason), *row))
    return True


def disable(connection: Connection, scope: str, webhook: str, reason: str, address: str) -> int:
    now = connection.now()
    query = """
        UPDATE webhooks SET disabled_at = ?, failed_at = ?, failure = ?
        WHERE key = ? AND address = ? RETURNING id
        """
    values = now, now, to_column(reason), key_of(scope, webhook), address
    gone = connection.execute(query, values).fetchone()
    if gone is None:
        return 0
    query = """
        UPDATE webhook_deliveries SET due_at = NULL, fence = fence + 1
        WHERE due_at IS NOT NULL AND webhook = ?
        """
    return connection.execute(query, gone).rowcount


def retry(connection: Connection, scope: str, webhooks: Collection[str] | None) -> int:
    now = connection.now()
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


def _begin_anew(connection: Connection, scope: str, before: Iterable[WebhookRow]) -> None:
    """Reset the recorded health of servers if the first webhook has just become active."""
    if _is_first(before, rows(connection, scope)):
        query = """
            UPDATE servers SET told_failing_at = NULL, told_well_at = NULL
            WHERE scope = (SELECT id FROM scopes WHERE key = ?)
                AND (told_failing_at IS NOT NULL OR told_well_at IS NOT NULL)
            """
        connection.execute(query, (key_of(scope),))


def _names(scope: str, webhook: str) -> tuple[bytes, bytes, str, str]:
    """Return the columns that identify a webhook: key, digest of the scope, scope, name."""
    return key_of(scope, webhook), key_of(scope), to_column(scope), webhook
