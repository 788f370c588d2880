"""A registry copied into an empty one of another back-end, and compared by digests.

How servers introduced themselves, leases, search indexes and what is granted to roles of a database
are of a machine or of that database: they are made, or granted, again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from discovery_engine._util.batches import batches
from discovery_engine._util.digests import blake2b
from discovery_engine.catalog import ServerPart
from discovery_engine.errors import RegistryError
from discovery_engine.fleet.refresh_job import RefreshJob
from discovery_engine.fleet.schedule import given_back
from discovery_engine.registry.codec import part_to_row, settings_to_text
from discovery_engine.registry.protocols import Registry
from discovery_engine.registry.records import (
    EVERY_SCOPE,
    DecisionExport,
    LossRecord,
)
from discovery_engine.registry.snapshot import Snapshot
from discovery_engine.registry.webhook_export import StoredDelivery, WebhookExport
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ToolKey

T = TypeVar("T")

Report: TypeAlias = Callable[[str], None]
"""A callback for progress: what is copied at the moment, and how much of it there is."""

# Bytes that are written in one transaction; a database gives it 5 s.
_TRANSFER_BATCH_BYTES = 1_000_000
_ROW = 1_000  # bytes that a row costs, beside what it holds
_TOOL = 2_000  # bytes of a tool with its description and schema


class PortableRegistry(Registry, Protocol):
    """A registry of which everything can be read, and written as it is."""

    @property
    def most_scopes(self) -> int:
        """How many snapshots it keeps; of more it drops the oldest."""

    def scopes(self) -> Collection[str]:
        """Return the scopes in which anything but decisions is kept."""

    def export_decisions(self) -> DecisionExport: ...

    def import_decisions(self, decisions: DecisionExport) -> bool:
        """Hold these, and no others; a loss that is there counts until all are written."""

    def save_uses(self, scope: str, uses: Mapping[ToolKey, UseCount]) -> None: ...

    def used_vectors(self, scope: str) -> Sequence[tuple[str, bytes]]:
        """The models and digests of the vectors that a scope uses."""

    def import_jobs(self, jobs: Iterable[RefreshJob]) -> None:
        """Add jobs that are not there."""

    def export_webhooks(self, scope: str) -> WebhookExport: ...

    def import_webhooks(self, scope: str, webhooks: WebhookExport) -> None:
        """Hold these webhooks, without deliveries, and no others."""

    def export_deliveries(self, scope: str) -> Sequence[StoredDelivery]:
        """The oldest first."""

    def import_deliveries(self, scope: str, deliveries: Iterable[StoredDelivery]) -> None: ...


class ContentDigest(msgspec.Struct, frozen=True):
    """How much of a kind a registry holds, and the digest of it."""

    count: int
    digest: str


def copy_registry(
    source: PortableRegistry,
    target: PortableRegistry,
    *,
    clock: Callable[[], float] = time.time,
    report: Report = lambda _: None,
) -> dict[str, ContentDigest]:
    """Copy all into an empty registry; returns what was copied, by kind.

    Raises:
        RegistryError: If the target is not empty, cannot hold it, or is not the same afterwards.
    """
    _require_room(source, target)
    # Who is given a copy that was not finished accepts nothing because it is new.
    unfinished = LossRecord(EVERY_SCOPE, clock())
    target.import_decisions(DecisionExport(1, (unfinished,), {}))
    scopes = sorted(source.scopes())
    for number, scope in enumerate(scopes, 1):
        _ScopeCopy(source, target, scope, f"configuration {number} of {len(scopes)}", report).run()
    requests = source.written_requests()
    for some in _reported(requests, lambda _: _ROW, "written requests", report):
        target.save_requests(some)
    decisions = source.export_decisions()
    report(f"decisions: {len(decisions.records):,}")
    target.import_decisions(decisions)
    report("comparing the copy with the original")
    expected, actual = content_of(source), content_of(target)
    if different := sorted(kind for kind in expected if expected[kind] != actual[kind]):
        raise RegistryError(
            f"the copy differs from the original in: {', '.join(different)}",
            hint="stop the gateways and workers that write to either, delete the copy, and repeat "
            "the command",
        )
    return actual


def content_of(registry: PortableRegistry) -> dict[str, ContentDigest]:
    """Return digests of what a registry holds, by kind; equal for two that hold the same."""
    digests: defaultdict[str, list[bytes]] = defaultdict(list)
    for scope in sorted(registry.scopes()):
        for kind, item in _content_of_scope(registry, scope):
            digests[kind].append(_digest((scope, item)))
    digests["decisions"] = [*map(_digest, registry.export_decisions().records)]
    digests["written requests"] = [*map(_digest, registry.written_requests())]
    return {kind: _content_digest(digests[kind]) for kind in _KINDS}


_KINDS = (
    "decisions", "settings", "servers", "uses", "vectors", "written requests", "presets",
    "requests of agents", "refresh jobs", "webhooks", "deliveries",
)  # fmt: skip


def _require_room(source: PortableRegistry, target: PortableRegistry) -> None:
    if target.newest_decision() or target.scopes():
        raise RegistryError(
            "the registry to copy to is not empty, and what it holds would be lost",
            hint="name an empty one: another database or file. What is left of a copy is deleted "
            "by `DROP SCHEMA discovery CASCADE`, or with all files of its name",
        )
    count = sum(source.load_settings(scope) is not None for scope in source.scopes())
    if count > target.most_scopes:
        raise RegistryError(
            f"the registry has {count:,} configurations, and the one to copy to keeps "
            f"{target.most_scopes:,}, so nothing was copied",
            hint="name a PostgreSQL database, which keeps 1,000",
        )


class _ScopeCopy:
    """Copies what is kept under one scope."""

    def __init__(
        self,
        source: PortableRegistry,
        target: PortableRegistry,
        scope: str,
        title: str,
        report: Report,
    ) -> None:
        self._source = source
        self._target = target
        self._scope = scope
        self._report: Report = lambda text: report(f"{title}, {text}")

    def run(self) -> None:
        source, target, scope = self._source, self._target, self._scope
        if snapshot := _own_snapshot(source, scope):
            self._copy_snapshot(snapshot)
            self._copy_uses(snapshot)
            self._copy_vectors()
        # After all that is an event for a webhook, so that none is made.
        target.import_webhooks(scope, source.export_webhooks(scope))
        deliveries = source.export_deliveries(scope)
        for some in self._batches(
            "deliveries", deliveries, lambda delivery: _ROW + len(delivery.body)
        ):
            target.import_deliveries(scope, some)
        for jobs in self._batches("refresh jobs", _resting_jobs(source, scope)):
            target.import_jobs(jobs)
        for preset in source.presets(scope):
            target.save_preset(scope, preset)
        for request in source.agent_requests(scope):
            target.save_agent_request(scope, request)

    def _copy_snapshot(self, snapshot: Snapshot) -> None:
        target, scope, settings = self._target, self._scope, snapshot.settings
        parts, revision = tuple(snapshot.catalog.parts.values()), snapshot.catalog.revision
        target.save_settings(scope, replace(settings, webhooks=()))
        for some in self._batches("servers", parts, _size_of_part):
            target.save_parts(scope, some, revision=revision)
        target.save_settings(scope, settings)
        # `decided` is only saved with a scope that was loaded: others may have saved it otherwise.
        target.load(scope)
        target.save_parts(scope, (), revision=revision, decided=snapshot.decided)

    def _copy_uses(self, snapshot: Snapshot) -> None:
        uses = _own_uses(self._source, self._scope, snapshot)
        for some in self._batches("uses", uses.items()):
            self._target.save_uses(self._scope, dict(some))

    def _copy_vectors(self) -> None:
        for some in self._batches("vectors", self._source.used_vectors(self._scope)):
            for model, vectors in _vectors(self._source, some).items():
                self._target.save_vectors(self._scope, model, vectors)

    def _batches(
        self, kind: str, items: Collection[T], size: Callable[[T], int] = lambda _: _ROW
    ) -> Iterator[list[T]]:
        return _reported(items, size, kind, self._report)


def _content_of_scope(registry: PortableRegistry, scope: str) -> Iterator[tuple[str, object]]:
    """Yield what is kept under a scope, each item with its kind."""
    webhooks = registry.export_webhooks(scope)
    if snapshot := _own_snapshot(registry, scope):
        yield "settings", settings_to_text(snapshot.settings)
        for name, part in snapshot.catalog.parts.items():
            yield "servers", (part_to_row(part), webhooks.health.get(name))
        for use in _own_uses(registry, scope, snapshot).items():
            yield "uses", use
        for some in batches(
            registry.used_vectors(scope), lambda _: _ROW, most=_TRANSFER_BATCH_BYTES
        ):
            for model, vectors in _vectors(registry, some).items():
                for vector in vectors.items():
                    yield "vectors", (model, vector)
    for kind, items in (
        ("presets", registry.presets(scope)),
        ("requests of agents", registry.agent_requests(scope)),
        ("refresh jobs", _resting_jobs(registry, scope)),
        ("webhooks", webhooks.webhooks),
        ("deliveries", registry.export_deliveries(scope)),
    ):
        for item in items:
            yield kind, item


def _own_snapshot(registry: PortableRegistry, scope: str) -> Snapshot | None:
    snapshot = registry.load(scope)
    return snapshot.own if snapshot else None


def _own_uses(
    registry: PortableRegistry, scope: str, snapshot: Snapshot
) -> dict[ToolKey, UseCount]:
    """Return the use counts of the servers that the settings name."""
    named = snapshot.settings.by_name
    return {key: use for key, use in registry.uses(scope).items() if key.server in named}


def _resting_jobs(registry: PortableRegistry, scope: str) -> list[RefreshJob]:
    """Jobs as they are once their workers have given them back."""
    jobs = registry.refresh_jobs(scope)
    return [given_back(job) if job.state == "processing" else job for job in jobs]


def _vectors(
    registry: PortableRegistry, wanted: Iterable[tuple[str, bytes]]
) -> dict[str, Mapping[bytes, bytes]]:
    """By model and digest."""
    digests: defaultdict[str, list[bytes]] = defaultdict(list)
    for model, digest in wanted:
        digests[model].append(digest)
    return {model: registry.vectors(model, some) for model, some in digests.items()}


def _size_of_part(part: ServerPart) -> int:
    return _ROW + _TOOL * (len(part.entries) + len(part.offerings))


def _reported(
    items: Collection[T], size: Callable[[T], int], kind: str, report: Report
) -> Iterator[list[T]]:
    """The items, as many at a time as one transaction writes."""
    done = 0
    for some in batches(items, size, most=_TRANSFER_BATCH_BYTES):
        report(f"{kind}: {done:,} of {len(items):,}")
        yield some
        done += len(some)


def _digest(item: object) -> bytes:
    return blake2b(repr(item).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _content_digest(items: Collection[bytes]) -> ContentDigest:
    return ContentDigest(len(items), blake2b(b"".join(sorted(items)), digest_size=16).hexdigest())
