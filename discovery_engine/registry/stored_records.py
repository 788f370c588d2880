"""The records of a registry, in a file and in a database alike; `protocols` has the contracts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from discovery_engine._util.batches import batches
from discovery_engine.registry.tables import (
    agent_request_table,
    era_table,
    lease_table,
    preset_table,
    request_table,
    usage_table,
    vector_table,
    webhook_table,
)
from discovery_engine.registry.webhook_rows import NoEvents

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.registry.statements import Connection
    from discovery_engine.registry.webhook_export import StoredDelivery, WebhookExport
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.search.usage import UseCount
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.webhooks.delivery import Delivery, WebhookState

T = TypeVar("T")

_VECTORS_AT_ONCE = 2_000  # in one transaction: 200,000 take longer than one may


class StoredRecords:
    """The part of a registry that needs nothing but transactions."""

    @abstractmethod
    def _read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a consistent snapshot and return its result."""

    @abstractmethod
    def _write(self, work: Callable[[Connection], T]) -> T:
        """Keep all that `work` does, or none."""

    _has_webhooks = True
    """True if events for webhooks are stored; a copy of another registry must not store them."""

    def _events(self, connection: Connection, scope: str) -> NoEvents:
        """Return the writer of events for webhooks, within a transaction."""
        return event_writer(connection, scope) if self._has_webhooks else NoEvents()

    def _announce(self, connection: Connection) -> None:
        """Have other processes look for changes once the transaction is committed."""

    def _write_announced(self, work: Callable[[Connection], T]) -> T:
        def write(connection: Connection) -> T:
            result = work(connection)
            self._announce(connection)
            return result

        return self._write(write)

    def load_era(self, connection: str) -> JSONObject | None:
        return self._read(partial(era_table.load, reached=connection))

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        self._write(partial(era_table.save, reached=connection, era=era))

    def requests_mark(self) -> str:
        return self._read(request_table.mark)

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        return self._read(request_table.load)

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:
        self._write_announced(partial(request_table.save, written=tuple(written)))

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        return self._write_announced(partial(request_table.forget, tools=tools))

    def agent_requests(self, scope: str) -> tuple[AgentRequest, ...]:
        return self._read(partial(agent_request_table.load, scope=scope))

    def save_agent_request(self, scope: str, request: AgentRequest) -> None:
        self._write(partial(agent_request_table.save, scope=scope, request=request))

    def replace_agent_request(self, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
        replace = partial(agent_request_table.replace_one, scope=scope, known=known, new=new)
        return self._write(replace)

    def presets(self, scope: str) -> tuple[Preset, ...]:
        return self._read(partial(preset_table.load, scope=scope))

    def save_preset(self, scope: str, preset: Preset) -> None:
        self._write(partial(preset_table.save, scope=scope, preset=preset))

    def delete_preset(self, scope: str, key: tuple[str, str, str]) -> bool:
        return self._write(partial(preset_table.delete, scope=scope, key=key))

    @property
    def shared_leases(self) -> Self:
        return self

    def lease(self, name: str) -> Lease | None:
        return self._read(partial(lease_table.load, name=name))

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        acquire = partial(lease_table.acquire, name=name, holder=holder, instead_of=instead_of)
        return self._write(acquire)

    def renew_lease(self, lease: Lease) -> Lease | None:
        return self._write(partial(lease_table.renew, lease=lease))

    def release_lease(self, lease: Lease) -> None:
        self._write(partial(lease_table.release, lease=lease))

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        return self._read(partial(usage_table.uses, scope=scope))

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        self._write(partial(usage_table.count, scope=scope, key=key, at=at))

    def save_uses(self, scope: str, uses: Mapping[ToolKey, UseCount]) -> None:
        self._write(partial(usage_table.save_all, scope=scope, uses=uses))

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        stored: dict[bytes, bytes] = {}
        for some in _some(digests):
            stored |= self._read(partial(vector_table.vectors, model=model, digests=some))
        return stored

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        for some in _some(vectors):
            new = {digest: vectors[digest] for digest in some}
            self._write(partial(vector_table.save, scope=scope, model=model, new=new))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        dropped = 0
        if not self._write(vector_table.is_settled):
            dropped = self._drop_unused_vectors()
        for some in _some(digests):
            self._write(partial(vector_table.use, scope=scope, model=model, digests=some))
        return dropped

    def _drop_unused_vectors(self) -> int:
        """Whoever is interrupted has dropped some; the next one goes on."""
        dropped = 0
        last: int | None = 0
        while last is not None:
            drop = partial(vector_table.drop_unused, after=last, most=_VECTORS_AT_ONCE)
            gone, last = self._write(drop)
            dropped += gone
        self._write(vector_table.settle)
        return dropped

    def vector_count(self, scope: str) -> int:
        return self._read(partial(vector_table.count, scope=scope))

    def used_vectors(self, scope: str) -> list[tuple[str, bytes]]:
        return self._read(partial(vector_table.used, scope=scope))

    def webhook_states(self, scope: str) -> tuple[WebhookState, ...]:
        return tuple(self._read(partial(webhook_table.states, scope=scope)))

    def due_webhooks(self, scope: str) -> frozenset[str]:
        return frozenset(self._read(partial(webhook_table.due, scope=scope)))

    def claim_deliveries(
        self, scope: str, webhook: str, *, limit: int, lease: float
    ) -> tuple[Delivery, ...]:
        claim = partial(webhook_table.claim, scope=scope, webhook=webhook, limit=limit, lease=lease)
        return tuple(self._write(claim))

    def finish_delivery(self, delivery: Delivery) -> bool:
        return self._write(partial(webhook_table.finish, delivery=delivery))

    def fail_delivery(self, delivery: Delivery, reason: str, *, retry_in: float | None) -> bool:
        fail = partial(webhook_table.fail, delivery=delivery, reason=reason, retry_in=retry_in)
        return self._write(fail)

    def disable_webhook(self, scope: str, webhook: str, reason: str, *, address: str) -> int:
        return self._write(lambda db: webhook_table.disable(db, scope, webhook, reason, address))

    def retry_deliveries(self, scope: str, webhooks: Collection[str] | None = None) -> int:
        return self._write(partial(webhook_table.retry, scope=scope, webhooks=webhooks))

    def export_webhooks(self, scope: str) -> WebhookExport:
        return self._read(partial(webhook_table.export, scope=scope))

    def import_webhooks(self, scope: str, webhooks: WebhookExport) -> None:
        self._write(partial(webhook_table.replace, scope=scope, export=webhooks))

    def export_deliveries(self, scope: str) -> list[StoredDelivery]:
        return self._read(partial(webhook_table.deliveries, scope=scope))

    def import_deliveries(self, scope: str, deliveries: Iterable[StoredDelivery]) -> None:
        self._write(partial(webhook_table.add_all, scope=scope, stored=tuple(deliveries)))


def event_writer(connection: Connection, scope: str) -> NoEvents:
    """Return the writer of a scope's events in this transaction; a no-op without a webhook."""
    rows = webhook_table.rows(connection, scope)
    if not any(row.is_active for row in rows):
        return NoEvents()
    # Most registries have no webhook, and this is on the path of every start.
    from discovery_engine.registry.webhook_writer import WebhookWriter  # noqa: PLC0415

    return WebhookWriter(connection, scope, rows)


def _some(digests: Iterable[bytes]) -> Iterator[list[bytes]]:
    """In one order on all gateways, so that two that save the same do not block each other."""
    return batches(sorted(digests), lambda _: 1, most=_VECTORS_AT_ONCE)
