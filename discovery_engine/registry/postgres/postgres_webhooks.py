"""Webhooks of a registry in PostgreSQL; `registry.webhook_store` has their contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres import webhook_queries

if TYPE_CHECKING:
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.webhook_export import StoredDelivery, WebhookExport
    from discovery_engine.webhooks.delivery import Delivery, WebhookState


class PostgresWebhooks:
    """The part of `PostgresRegistry` that needs nothing but the database."""

    database: PostgresDatabase

    def webhook_states(self, scope: str) -> tuple[WebhookState, ...]:
        return tuple(self.database.read(lambda db: webhook_queries.states(db, scope)))

    def due_webhooks(self, scope: str) -> frozenset[str]:
        return frozenset(self.database.read(lambda db: webhook_queries.due(db, scope)))

    def claim_deliveries(
        self, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        return tuple(
            self.database.write(lambda db: webhook_queries.claim(db, scope, webhook, limit, lease))
        )

    def finish_delivery(self, delivery: Delivery) -> bool:
        return self.database.write(lambda db: webhook_queries.finish(db, delivery))

    def fail_delivery(self, delivery: Delivery, reason: str, *, retry_in: float | None) -> bool:
        return self.database.write(lambda db: webhook_queries.fail(db, delivery, reason, retry_in))

    def disable_webhook(self, scope: str, webhook: str, reason: str, *, address: str) -> int:
        return self.database.write(
            lambda db: webhook_queries.disable(db, scope, webhook, reason, address)
        )

    def retry_deliveries(self, scope: str, webhooks: Collection[str] | None = None) -> int:
        return self.database.write(lambda db: webhook_queries.retry(db, scope, webhooks))

    def export_webhooks(self, scope: str) -> WebhookExport:
        return self.database.read(lambda db: webhook_queries.export(db, scope))

    def import_webhooks(self, scope: str, webhooks: WebhookExport) -> None:
        self.database.write(lambda db: webhook_queries.replace(db, scope, webhooks))

    def export_deliveries(self, scope: str) -> list[StoredDelivery]:
        return self.database.read(lambda db: webhook_queries.deliveries(db, scope))

    def import_deliveries(self, scope: str, deliveries: Iterable[StoredDelivery]) -> None:
        kept = tuple(deliveries)
        self.database.write(lambda db: webhook_queries.add_all(db, scope, kept))
