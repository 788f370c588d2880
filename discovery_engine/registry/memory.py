"""The registry in memory: it ends with its process."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.fleet.refresh_job import RefreshClaim
from discovery_engine.registry.codec import is_same_listing, part_to_row, without_secrets
from discovery_engine.registry.leases import Lease
from discovery_engine.registry.memory_decisions import MemoryDecisions
from discovery_engine.registry.memory_queue import MemoryQueue
from discovery_engine.registry.memory_webhooks import MemoryWebhooks
from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.records import EffectiveDecisions
from discovery_engine.registry.refresh_queue import ClaimedPart, SaveOutcome
from discovery_engine.registry.refresh_steps import success
from discovery_engine.registry.request_records import AgentRequest
from discovery_engine.registry.snapshot import Snapshot
from discovery_engine.registry.vector_period import period_at
from discovery_engine.registry.webhook_rows import NoEvents
from discovery_engine.search.examples.written import WrittenRequests
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.trust.decisions import Acceptance


class MemoryRegistry(MemoryDecisions, MemoryQueue, MemoryWebhooks):
    """Starts with the decisions that are `known`, and nothing else."""

    health = None
    search = None
    gateways = None

    def __init__(
        self, known: EffectiveDecisions | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        MemoryQueue.__init__(self, clock)
        MemoryDecisions.__init__(self, EffectiveDecisions() if known is None else known)
        MemoryWebhooks.__init__(self)
        self._snapshots: dict[str, Snapshot] = {}
        self._indexes: dict[str, bytes] = {}
        self._eras: dict[str, JSONObject] = {}
        self._vectors: dict[tuple[str, bytes], bytes] = {}
        self._uses: dict[str, frozenset[tuple[str, bytes]]] = {}
        self._period = period_at(clock())
        self._counted: dict[str, dict[ToolKey, UseCount]] = {}
        self._written: dict[tuple[str, str, str], WrittenRequests] = {}
        self._writes = 0
        self._leases: dict[str, Lease] = {}
        self._agent_requests: dict[str, dict[str, AgentRequest]] = {}
        self._presets: dict[str, dict[tuple[str, str, str], Preset]] = {}

    def load(self, scope: str) -> Snapshot | None:
        return self._snapshots.get(scope)

    def load_settings(self, scope: str) -> Settings | None:
        snapshot = self.load(scope)
        return snapshot.settings if snapshot else None

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        with self._turn:
            self.name_servers(scope, settings.by_name)
            self._replace_webhooks(scope, settings.webhooks, keep_others=keep_others)
            before = self._snapshots.get(scope)
            known = self._catalog(scope)
            names = {server.name for server in before.settings.servers} if before else set()
            names |= known.parts.keys()
            named = {server.name for server in settings.servers}
            named |= names if keep_others else {job.server for job in self.refresh_jobs(scope)}
            catalog = _without(known, names - named)
            self._snapshots[scope] = Snapshot(without_secrets(settings), catalog)
            self._drop_uses(scope, lambda server: server not in named)
            new = [one.name for one in settings.servers if one.name not in names]
            self._events_of(scope).note_servers(new, sorted(names - named))

    def save_parts(
        self,
        scope: str,
        parts: Iterable[ServerPart],
        *,
        revision: int,
        decided: int | None = None,
        keep_newer: bool = False,
    ) -> None:
        with self._turn:
            if (snapshot := self._snapshots.get(scope)) is None:
                return
            named = {server.name for server in snapshot.settings.servers}
            known = dict(snapshot.catalog.parts)
            new = {part.server: part for part in parts if part.server in named}
            events = self._events_of(scope)
            events.note_health(new.values(), are_new_listings=not keep_newer)
            events.note_listings(new.values())
            known |= new
            newest = max(revision, snapshot.catalog.revision)
            catalog = Catalog.of(known.values(), revision=newest)
            self._snapshots[scope] = Snapshot(snapshot.settings, catalog, decided)

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:  # noqa: ARG002 - of no scope
        return ()

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        with self._turn:
            if (snapshot := self._snapshots.get(scope)) is None:
                return 0
            known = snapshot.catalog
            gone = set(known.parts) if servers is None else set(servers)
            self._drop_uses(scope, lambda server: servers is None or server in gone)
            kept = [part for part in known.parts.values() if part.server not in gone]
            catalog = Catalog.of(kept, revision=known.revision)
            self._snapshots[scope] = Snapshot(snapshot.settings, catalog)
            return len(known) - len(catalog)

    @property
    def indexes(self) -> MemoryRegistry:
        return self

    def load_index(self, scope: str) -> bytes | None:
        return self._indexes.get(scope)

    def save_index(self, scope: str, data: bytes) -> None:
        if scope in self._snapshots:
            self._indexes[scope] = data

    def load_era(self, connection: str) -> JSONObject | None:
        return self._eras.get(connection)

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        if era is None:
            self._eras.pop(connection, None)
        else:
            self._eras[connection] = era

    async def changes(self) -> AsyncGenerator[None]:
        import anyio  # noqa: PLC0415 - only processes that run for long follow changes

        yield
        await anyio.sleep_forever()  # no other process can decide anything here

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        with self._turn:
            kept = self._vectors.items()
            wanted = frozenset(digests)
            return {digest: data for (of, digest), data in kept if of == model and digest in wanted}

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        with self._turn:
            new = {(model, digest): data for digest, data in vectors.items()}
            self._vectors |= new
            self._uses[scope] = self._uses.get(scope, frozenset()) | new.keys()

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        with self._turn:
            dropped = self._drop_unused_vectors()
            new = frozenset((model, digest) for digest in digests) & self._vectors.keys()
            self._uses[scope] = self._uses.get(scope, frozenset()) | new
            return dropped

    def _drop_unused_vectors(self) -> int:
        period, self._period = self._period, period_at(self._clock())
        if period == self._period:
            return 0
        unused = self._vectors.keys() - frozenset().union(*self._uses.values())
        for key in unused:
            del self._vectors[key]
        self._uses.clear()
        return len(unused)

    def vector_count(self, scope: str) -> int:
        return len(self._uses.get(scope, ()))

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        return dict(self._counted.get(scope, {}))

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        with self._turn:
            snapshot = self._snapshots.get(scope)
            if snapshot and any(server.name == key.server for server in snapshot.settings.servers):
                counted = self._counted.setdefault(scope, {})
                counted[key] = counted.get(key, UseCount(0.0, at)).incremented(at)

    def requests_mark(self) -> str:
        return str(self._writes) if self._written else ""

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        with self._turn:
            return tuple(self._written.values())

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:
        with self._turn:
            self._written |= {(one.server, one.tool, one.fingerprint): one for one in written}
            self._writes += 1

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        with self._turn:
            gone = [key for key in self._written if tools is None or key[:2] in tools]
            for key in gone:
                del self._written[key]
            self._writes += 1
            return len(gone)

    def agent_requests(self, scope: str) -> tuple[AgentRequest, ...]:
        with self._turn:
            return tuple(self._agent_requests.get(scope, {}).values())

    def save_agent_request(self, scope: str, request: AgentRequest) -> None:
        with self._turn:
            self._agent_requests.setdefault(scope, {})[request.id] = request

    def replace_agent_request(self, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
        with self._turn:
            kept = self._agent_requests.setdefault(scope, {})
            is_same = kept.get(known.id) == known
            if is_same:
                kept[known.id] = new
            return is_same

    def presets(self, scope: str) -> tuple[Preset, ...]:
        with self._turn:
            kept = self._presets.get(scope, {})
            return tuple(kept[key] for key in sorted(kept))

    def save_preset(self, scope: str, preset: Preset) -> None:
        with self._turn:
            self._presets.setdefault(scope, {})[preset.key] = preset

    def delete_preset(self, scope: str, key: tuple[str, str, str]) -> bool:
        with self._turn:
            return self._presets.get(scope, {}).pop(key, None) is not None

    @property
    def shared_leases(self) -> MemoryRegistry:
        return self

    def lease(self, name: str) -> Lease | None:
        return self._leases.get(name)

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        with self._turn:
            known = self._leases.get(name)
            if known is not None and not known.is_free and known != instead_of:
                return None
            self._leases[name] = Lease(name, holder, known.fence + 1 if known else 1)
            return self._leases[name]

    def renew_lease(self, lease: Lease) -> Lease | None:
        with self._turn:
            if not self._has(lease):
                return None
            renewed = replace(lease, renewals=lease.renewals + 1)
            self._leases[lease.name] = renewed
            return renewed

    def release_lease(self, lease: Lease) -> None:
        with self._turn:
            if self._has(lease):
                self._leases[lease.name] = replace(lease, holder="")

    def save_claimed(
        self,
        claim: RefreshClaim,
        part: ServerPart,
        *,
        due_in: float,
        revision: int,
        decided: int | None = None,
    ) -> SaveOutcome:
        with self._turn:
            if not self._is_held(claim):
                return "lost"
            is_same = self._is_saved(claim.scope, part)
            if not is_same:
                self._events_of(claim.scope).note_listings([part])
                if snapshot := self._snapshots.get(claim.scope):  # whether or not it names it
                    catalog = snapshot.catalog.with_parts([part])
                    self._snapshots[claim.scope] = Snapshot(snapshot.settings, catalog)
                self.save_parts(claim.scope, [part], revision=revision, decided=decided)
            self._take_step(*success(claim, part, due_in))
            return "unchanged" if is_same else "saved"

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        with self._turn:
            same = [one for one in listed if self._is_saved(one.claim.scope, one.part)]
            steps = [success(one.claim, one.part, one.due_in) for one in same]
            return frozenset(
                one.claim for one, step in zip(same, steps, strict=True) if self._take_step(*step)
            )

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        with self._turn:
            if not self._is_held(claim):
                return None
            return self.accept(scope, found, at=at, if_new=True)

    def close(self) -> None:
        """Nothing is held open."""

    def _is_saved(self, scope: str, part: ServerPart) -> bool:
        """Whether a listing is saved as it is."""
        known = self._catalog(scope).part(part.server)
        return bool(known.listed_at) and is_same_listing(part_to_row(known), part_to_row(part))

    def _has(self, lease: Lease) -> bool:
        known = self._leases.get(lease.name)
        return known is not None and (known.holder, known.fence) == (lease.holder, lease.fence)

    def _events_of(self, scope: str) -> NoEvents:
        snapshot = self._snapshots.get(scope)
        named = {server.name for server in snapshot.settings.servers} if snapshot else set()

        def part_of(server: str) -> ServerPart | None:
            name = ServerName(server)
            return self._catalog(scope).part(name) if name in named else None

        return self._events(scope, part_of)

    def _drop_servers(self, scope: str, servers: Collection[ServerName]) -> None:
        if snapshot := self._snapshots.get(scope):
            catalog = _without(snapshot.catalog, servers)
            self._snapshots[scope] = Snapshot(snapshot.settings, catalog)
            self._drop_uses(scope, lambda server: server in servers)
            self._events_of(scope).note_servers((), sorted(servers))

    def _drop_uses(self, scope: str, is_gone: Callable[[ServerName], bool]) -> None:
        counted = self._counted.get(scope, {})
        kept = {key: use for key, use in counted.items() if not is_gone(key.server)}
        self._counted[scope] = kept

    def _catalog(self, scope: str) -> Catalog:
        snapshot = self._snapshots.get(scope)
        return snapshot.catalog if snapshot else Catalog()


def _without(catalog: Catalog, servers: Collection[ServerName]) -> Catalog:
    kept = (part for name, part in catalog.parts.items() if name not in servers)
    return Catalog.of(kept, revision=catalog.revision)
