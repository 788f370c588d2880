"""The webhooks of a scope as one registry hands them to another."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from discovery_engine.webhooks.delivery import ServerHealth


class StoredWebhook(Struct, frozen=True):
    """A webhook as it is stored; `WebhookRow` and `WebhookState` explain the fields."""

    name: str
    definition: str
    address: str
    left_at: float | None
    disabled_at: float | None
    delivered: int
    dropped: int
    delivered_at: float | None
    failed_at: float | None
    failure: str


class StoredDelivery(Struct, frozen=True):
    """An event that waits for a webhook, without the claim of a process that sends it."""

    webhook: str
    event_id: str
    event_type: str
    body: str
    stored_at: float
    tried_since: float
    due_at: float | None
    """None if it is dead."""
    attempts: int


class WebhookExport(Struct, frozen=True):
    webhooks: tuple[StoredWebhook, ...]
    health: Mapping[str, ServerHealth]
    """The health that webhooks were last sent, by server; servers without any are left out."""
