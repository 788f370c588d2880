"""The webhooks and their deliveries, as every back-end of the registry keeps them.

Webhooks follow the settings that are saved: `SnapshotStore.save_settings` makes them, and what is
saved later is compared, in its own transaction, with what was saved before; each difference that a
webhook wants is a delivery of it from then on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from discovery_engine.webhooks.delivery import Delivery, WebhookState


class WebhookStore(Protocol):
    """All times are those of the store's own clock."""

    def webhook_states(self, scope: str) -> tuple[WebhookState, ...]:
        """Return the states of the webhooks in the saved settings, in the order of their names."""

    def due_webhooks(self, scope: str) -> frozenset[str]:
        """Return the webhooks that have a delivery to be claimed now."""

    def claim_deliveries(
        self, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        """Claim deliveries for `lease` seconds, the longest due first.

        No other process gets them until then; afterwards any may send them once more.
        """

    def finish_delivery(self, delivery: Delivery) -> bool:
        """Note that it was accepted; False if another process has claimed it since."""

    def fail_delivery(self, delivery: Delivery, reason: str, *, retry_in: float | None) -> bool:
        """Note a failure, tried again in `retry_in` seconds, or dead with None; as above."""

    def disable_webhook(self, scope: str, webhook: str, reason: str, *, address: str) -> int:
        """Store nothing more for a webhook, until its address is another one or it is retried.

        Nothing happens if that is not the address (`webhook_rows.address_of`) to which was sent.
        Its pending deliveries are dead; returns how many.
        """

    def retry_deliveries(self, scope: str, webhooks: Collection[str] | None = None) -> int:
        """Have dead deliveries sent now, as if they were new; those of all webhooks with None.

        What was disabled is enabled. Returns how many deliveries it concerns.
        """
