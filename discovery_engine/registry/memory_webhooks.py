"""Webhooks in memory; `registry.webhook_store` has their contract."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.registry.webhook_rows import (
    NoEvents,
    WebhookRow,
    address_of,
    definition_of,
    is_first,
    webhook_changes,
)
from discovery_engine.registry.webhook_writer import WebhookWriter
from discovery_engine.webhooks.delivery import Delivery, ServerHealth, WebhookState
from discovery_engine.webhooks.delivery_schedule import GIVE_UP_AFTER, MOST_STORED

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.webhook_settings import WebhookSettings
    from discovery_engine.webhooks.event import StoredEvent


class _Stored(Struct):
    delivery: Delivery
    stored_at: float
    tried_since: float
    due_at: float | None


class _Webhook(Struct):
    row: WebhookRow
    state: WebhookState
    left_at: float = 0.0
    stored: dict[int, _Stored] = field(default_factory=dict)


class MemoryWebhooks:
    """The part of `MemoryRegistry` that holds webhooks."""

    _turn: threading.RLock
    _clock: Callable[[], float]

    def __init__(self) -> None:
        self._webhooks: dict[str, dict[str, _Webhook]] = {}
        self.sent_health: dict[tuple[str, str], ServerHealth] = {}
        """The health that webhooks were sent last, by scope and server."""
        self._last_id = 0

    def webhook_states(self, scope: str) -> tuple[WebhookState, ...]:
        with self._turn:
            found = self._webhooks.get(scope, {})
            kept = (found[name] for name in sorted(found))
            return tuple(_state(one) for one in kept if not one.row.has_left)

    def due_webhooks(self, scope: str) -> frozenset[str]:
        with self._turn:
            now = self._clock()
            found = self._webhooks.get(scope, {}).items()
            return frozenset(name for name, one in found if _due(one, now))

    def claim_deliveries(
        self, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        with self._turn:
            now, known = self._clock(), self._webhooks.get(scope, {}).get(webhook)
            claimed = []
            for one in _due(known, now)[:limit] if known else ():
                one.delivery = replace(
                    one.delivery,
                    attempts=one.delivery.attempts + 1,
                    fence=one.delivery.fence + 1,
                    waiting=now - one.tried_since,
                )
                one.due_at = now + lease
                claimed.append(one.delivery)
            return tuple(claimed)

    def finish_delivery(self, delivery: Delivery) -> bool:
        with self._turn:
            webhook = self._holder_of(delivery)
            if webhook is None:
                return False
            del webhook.stored[delivery.id]
            count = webhook.state.delivered + 1
            webhook.state = replace(
                webhook.state, delivered=count, delivered_at=self._clock(), failure=""
            )
            return True

    def fail_delivery(self, delivery: Delivery, reason: str, *, retry_in: float | None) -> bool:
        with self._turn:
            webhook = self._holder_of(delivery)
            if webhook is None:
                return False
            now = self._clock()
            webhook.stored[delivery.id].due_at = None if retry_in is None else now + retry_in
            webhook.state = replace(webhook.state, failed_at=now, failure=reason)
            return True

    def disable_webhook(self, scope: str, webhook: str, reason: str, *, address: str) -> int:
        with self._turn:
            known = self._webhooks.get(scope, {}).get(webhook)
            if known is None or known.row.address != address:
                return 0
            now = self._clock()
            known.row = replace(known.row, is_disabled=True)
            known.state = replace(known.state, disabled_at=now, failed_at=now, failure=reason)
            pending = [one for one in known.stored.values() if one.due_at is not None]
            for one in pending:
                one.due_at = None
                one.delivery = replace(one.delivery, fence=one.delivery.fence + 1)
            return len(pending)

    def retry_deliveries(self, scope: str, webhooks: Collection[str] | None = None) -> int:
        with self._turn:
            now, count = self._clock(), 0
            before = self._rows(scope)
            for name, webhook in self._webhooks.get(scope, {}).items():
                if webhooks is not None and name not in webhooks:
                    continue
                webhook.row = replace(webhook.row, is_disabled=False)
                webhook.state = replace(webhook.state, disabled_at=None)
                for one in webhook.stored.values():
                    if one.due_at is None:
                        one.due_at = one.tried_since = now
                        one.delivery = replace(one.delivery, attempts=0)
                        count += 1
            self._begin_anew(scope, before)
            return count

    def add_delivery(self, scope: str, webhook: str, event: StoredEvent, at: float) -> None:
        """Store one that is due at once."""
        known = self._webhooks[scope][webhook]
        self._last_id += 1
        new = Delivery(self._last_id, webhook, event.id, event.type, event.body, 0, 0, 0.0)
        known.stored[new.id] = _Stored(new, at, at, at)
        while len(known.stored) > MOST_STORED:
            del known.stored[next(iter(known.stored))]
            known.state = replace(known.state, dropped=known.state.dropped + 1)

    def _replace_webhooks(
        self, scope: str, webhooks: Iterable[WebhookSettings], *, keep_others: bool
    ) -> None:
        known = self._webhooks.setdefault(scope, {})
        now = self._clock()
        for name, one in list(known.items()):
            if one.row.has_left and one.left_at < now - GIVE_UP_AFTER:
                del known[name]
        before = self._rows(scope)
        changes = webhook_changes(before, webhooks, keep_others=keep_others)
        for row in changes.gone:
            known[row.name].row = replace(row, has_left=True)
            known[row.name].left_at = now
        for new in changes.new:
            address = address_of(new)
            webhook = known.get(new.name) or _Webhook(
                WebhookRow(0, new.name, "", "", has_left=False, is_disabled=False),
                WebhookState(new.name),
            )
            is_disabled = webhook.row.is_disabled and webhook.row.address == address
            webhook.row = WebhookRow(
                0, new.name, definition_of(new), address, has_left=False, is_disabled=is_disabled
            )
            if not is_disabled:
                webhook.state = replace(webhook.state, disabled_at=None)
            known[new.name] = webhook
        self._begin_anew(scope, before)

    def _events(self, scope: str, part_of: Callable[[str], ServerPart | None]) -> NoEvents:
        """What stores events; `part_of` has what is saved of a server that the settings name."""
        rows = [row for row in self._rows(scope) if row.is_active]
        return _Writer(self, scope, rows, part_of, self._clock()) if rows else NoEvents()

    def _rows(self, scope: str) -> list[WebhookRow]:
        return [one.row for one in self._webhooks.get(scope, {}).values()]

    def _begin_anew(self, scope: str, before: Iterable[WebhookRow]) -> None:
        """Forget what was sent of each server's health, if nothing was noted until now."""
        if is_first(before, self._rows(scope)):
            for key in [key for key in self.sent_health if key[0] == scope]:
                del self.sent_health[key]

    def _holder_of(self, delivery: Delivery) -> _Webhook | None:
        """The webhook of a delivery that was not claimed since."""
        for webhooks in self._webhooks.values():
            for webhook in webhooks.values():
                one = webhook.stored.get(delivery.id)
                if one is not None and one.delivery.fence == delivery.fence:
                    return webhook
        return None


def _state(webhook: _Webhook) -> WebhookState:
    pending = [one.stored_at for one in webhook.stored.values() if one.due_at is not None]
    return replace(
        webhook.state,
        pending=len(pending),
        dead=len(webhook.stored) - len(pending),
        oldest_at=min(pending, default=None),
    )


def _due(webhook: _Webhook, now: float) -> list[_Stored]:
    due = [(one.due_at, number) for number, one in webhook.stored.items() if one.due_at is not None]
    return [webhook.stored[number] for at, number in sorted(due) if at <= now]


class _Writer(WebhookWriter):
    def __init__(
        self,
        store: MemoryWebhooks,
        scope: str,
        rows: Iterable[WebhookRow],
        part_of: Callable[[str], ServerPart | None],
        now: float,
    ) -> None:
        # The rows of a scope have no numbers: their place is one.
        self._names = [row.name for row in rows]
        super().__init__(replace(row, id=at) for at, row in enumerate(rows))
        self._store = store
        self._scope = scope
        self._part_of = part_of
        self._at = now

    @property
    def _now(self) -> float:
        return self._at

    def _stored_part(self, server: str) -> tuple[bool, ServerPart | None]:
        part = self._part_of(server)
        return part is not None, part if part and part.listed_at else None

    def _locked_health(self, server: str) -> ServerHealth | None:
        if self._part_of(server) is None:
            return None
        return self._store.sent_health.get((self._scope, server), ServerHealth())

    def _set_health(self, server: str, health: ServerHealth) -> None:
        self._store.sent_health[self._scope, server] = health

    def _add(self, webhook: int, event: StoredEvent) -> None:
        self._store.add_delivery(self._scope, self._names[webhook], event, self._now)
