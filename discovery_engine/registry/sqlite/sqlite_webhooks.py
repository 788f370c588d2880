"""Webhooks of a registry in SQLite; `registry.webhook_store` has their contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from discovery_engine.registry.sqlite import webhook_table

if TYPE_CHECKING:
    from discovery_engine.registry.sqlite.database import Database
    from discovery_engine.registry.webhook_export import StoredDelivery, WebhookExport
    from discovery_engine.webhooks.delivery import Delivery, WebhookState


class SqliteWebhooks:
    """The part of `SqliteRegistry` that needs nothing but the file and the machine's clock."""

    _database: Database
    _clock: Callable[[], float]

    def webhook_states(self, scope: str) -> tuple[WebhookState, ...]:
        return tuple(self._database.read(lambda db: webhook_table.states(db, scope)))

    def due_webhooks(self, scope: str) -> frozenset[str]:
        return frozenset(
            self._database.read(lambda db: webhook_table.due(db, scope, self._clock()))
        )

    def claim_deliveries(
        self, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        return tuple(
            self._database.write(
                lambda db: webhook_table.claim(db, scope, webhook, limit, lease, self._clock())
            )
        )

    def finish_delivery(self, delivery: Delivery) -> bool:
        return self._database.write(lambda db: webhook_table.finish(db, delivery, self._clock()))

    def fail_delivery(self, delivery: Delivery, reason: str, *, retry_in: float | None) -> bool:
        return self._database.write(
            lambda db: webhook_table.fail(db, delivery, reason, retry_in, self._clock())
        )

    def disable_webhook(self, scope: str, webhook: str, reason: str, *, address: str) -> int:
        return self._database.write(
            lambda db: webhook_table.disable(db, scope, webhook, reason, address, self._clock())
        )

    def retry_deliveries(self, scope: str, webhooks: Collection[str] | None = None) -> int:
        return self._database.write(
            lambda db: webhook_table.retry(db, scope, webhooks, self._clock())
        )

    def export_webhooks(self, scope: str) -> WebhookExport:
        return self._database.read(lambda db: webhook_table.export(db, scope))

    def import_webhooks(self, scope: str, webhooks: WebhookExport) -> None:
        self._database.write(lambda db: webhook_table.replace(db, scope, webhooks))

    def export_deliveries(self, scope: str) -> list[StoredDelivery]:
        return self._database.read(lambda db: webhook_table.deliveries(db, scope))

    def import_deliveries(self, scope: str, deliveries: Iterable[StoredDelivery]) -> None:
        kept = tuple(deliveries)
        self._database.write(lambda db: webhook_table.add_all(db, scope, kept))
