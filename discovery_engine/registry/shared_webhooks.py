"""Webhooks of a shared registry: in the database alone, so that no event is stored twice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from discovery_engine.registry.protocols import Registry
    from discovery_engine.webhooks.delivery import Delivery, WebhookState

T = TypeVar("T")


class SharedWebhooks:
    """The part of `SharedRegistry` that passes every call on; the error says why one cannot be."""

    @abstractmethod
    def _asked(self, ask: Callable[[Registry], T]) -> T:
        """What the database answers."""

    def webhook_states(self, scope: str) -> tuple[WebhookState, ...]:
        return self._asked(lambda store: store.webhook_states(scope))

    def due_webhooks(self, scope: str) -> frozenset[str]:
        return self._asked(lambda store: store.due_webhooks(scope))

    def claim_deliveries(
        self, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        return self._asked(
            lambda store: store.claim_deliveries(scope, webhook, limit=limit, lease=lease)
        )

    def finish_delivery(self, delivery: Delivery) -> bool:
        return self._asked(lambda store: store.finish_delivery(delivery))

    def fail_delivery(self, delivery: Delivery, reason: str, *, retry_in: float | None) -> bool:
        return self._asked(lambda store: store.fail_delivery(delivery, reason, retry_in=retry_in))

    def disable_webhook(self, scope: str, webhook: str, reason: str, *, address: str) -> int:
        return self._asked(
            lambda store: store.disable_webhook(scope, webhook, reason, address=address)
        )

    def retry_deliveries(self, scope: str, webhooks: Collection[str] | None = None) -> int:
        return self._asked(lambda store: store.retry_deliveries(scope, webhooks))
