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
from discovery_engine.registry.memory_queue import MemoryQueue
from discovery_engine.registry.memory_webhooks import MemoryWebhooks
from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.protocols import SaveOutcome, Snapshot
from discovery_engine.registry.records import (
    AcceptanceRecord,
    ApprovalRecord,
    EffectiveDecisions,
    LossRecord,
    Record,
    RegistrationRecord,
    RevocationRecord,
    SwitchRecord,
    UnregistrationRecord,
)
from discovery_engine.registry.request_records import AgentRequest
from discovery_engine.registry.server_records import RegisteredServer, ServerSwitch
from discovery_engine.registry.webhook_rows import NoEvents
from discovery_engine.search.examples.written import WrittenRequests
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.trust.decisions import (
    Acceptance,
    AcceptedTools,
    Approval,
    Decisions,
    with_accepted,
)


class MemoryRegistry(MemoryQueue, MemoryWebhooks):
    """Starts with the decisions that are `known`, and nothing else."""

    health = None
    search = None

    def __init__(
        self, known: EffectiveDecisions | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        MemoryQueue.__init__(self, clock)
        MemoryWebhooks.__init__(self)
        self._decided = EffectiveDecisions() if known is None else known
        self._number = len(self._decided)
        self._snapshots: dict[str, Snapshot] = {}
        self._indexes: dict[str, bytes] = {}
        self._eras: dict[str, JSONObject] = {}
        self._vectors: dict[tuple[str, bytes], bytes] = {}
        self._uses: dict[str, frozenset[tuple[str, bytes]]] = {}
        self._counted: dict[str, dict[ToolKey, UseCount]] = {}
        self._server_marks = dict.fromkeys(self._decided.scopes, "known")
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
            self._replace_webhooks(scope, settings.webhooks, keep_others=keep_others)
            before = self._snapshots.get(scope)
            names = {server.name for server in before.settings.servers} if before else set()
            known = self._catalog(scope)
            named = {server.name for server in settings.servers}
            if keep_others:
                named |= known.parts.keys()
            kept = [part for part in known.parts.values() if part.server in named]
            catalog = Catalog.of(kept, revision=known.revision)
            self._snapshots[scope] = Snapshot(without_secrets(settings), catalog)
            self._drop_uses(scope, lambda server: server not in named)
            new = [one.name for one in settings.servers if one.name not in names]
            self._events_of(scope).note_servers(new, () if keep_others else sorted(names - named))

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

    def decisions(self, scope: str) -> Decisions:
        with self._turn:
            approvals: dict[str, frozenset[str]] = {}
            for name, server, identity in self._decided.approvals:
                if name == scope:
                    approvals[server] = approvals.get(server, frozenset()) | {identity}
            decisions = Decisions(approvals, lost_at=self._decided.lost_at(scope))
            return with_accepted(decisions, self._accepted(scope))

    def newest_decision(self) -> int:
        return self._number

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        return self.decisions(scope).approvals

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        return self.decisions(scope).accepted.get(server, {})

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        with self._turn:
            for one in approvals:
                self._decide(ApprovalRecord(scope, one, at))

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        with self._turn:
            before = len(self._decided.approvals)
            for server in servers:
                self._decide(RevocationRecord(scope, server))
            return before - len(self._decided.approvals)

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        with self._turn:
            before = self._number
            known = self._accepted(scope) if if_new else ()
            taken = {(one.server, one.tool) for one in known}
            for one in found:
                if (one.server, one.tool) not in taken:
                    self._decide(AcceptanceRecord(scope, one, at))
            return self._number - before

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return tuple(one for one in self._accepted(scope) if one.server == server)

    def lost_at(self, scope: str) -> float | None:
        return self._decided.lost_at(scope)

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        with self._turn:
            if (lost := self._decided.lost_at(scope)) is not None:
                self._decide(LossRecord(scope, lost, at))

    def servers_mark(self, scope: str) -> str:
        return self._server_marks.get(scope, "")

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        with self._turn:
            kept = self._decided.servers.items()
            return tuple(record.server for (of, _), record in kept if of == scope)

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        self._decide_servers(scope, [RegistrationRecord(scope, one) for one in servers])

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        gone = [name for name in dict.fromkeys(names) if (scope, name) in self._decided.servers]
        self._decide_servers(scope, [UnregistrationRecord(scope, name) for name in gone])
        return len(gone)

    def switches(self, scope: str) -> Mapping[str, ServerSwitch]:
        with self._turn:
            kept = self._decided.switches.items()
            return {
                server: ServerSwitch(bool(record.is_wanted), record.at)
                for (of, server), record in kept
                if of == scope
            }

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        known = self.switches(scope)
        records = [
            SwitchRecord(scope, server, is_wanted, at)
            for server, is_wanted in wanted.items()
            if is_wanted is not (known[server].is_wanted if server in known else None)
        ]
        self._decide_servers(scope, records)

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
            self._uses[scope] = frozenset((model, digest) for digest in digests)
            used = frozenset().union(*self._uses.values())
            kept = {key: data for key, data in self._vectors.items() if key in used}
            dropped = len(self._vectors) - len(kept)
            self._vectors = kept
            return dropped

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
        self, claim: RefreshClaim, part: ServerPart, *, revision: int, decided: int | None = None
    ) -> SaveOutcome:
        with self._turn:
            if not self._is_held(claim):
                return "lost"
            known = self._catalog(claim.scope).part(claim.server)
            if known.listed_at and is_same_listing(part_to_row(known), part_to_row(part)):
                return "unchanged"
            self._events_of(claim.scope).note_listings([part])
            if snapshot := self._snapshots.get(claim.scope):  # whether or not it names the server
                catalog = snapshot.catalog.with_parts([part])
                self._snapshots[claim.scope] = Snapshot(snapshot.settings, catalog)
            self.save_parts(claim.scope, [part], revision=revision, decided=decided)
            return "saved"

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        with self._turn:
            if not self._is_held(claim):
                return None
            return self.accept(scope, found, at=at, if_new=True)

    def close(self) -> None:
        """Nothing is held open."""

    def _has(self, lease: Lease) -> bool:
        known = self._leases.get(lease.name)
        return known is not None and (known.holder, known.fence) == (lease.holder, lease.fence)

    def _decide(self, record: Record) -> None:
        self._decided.add(record)
        self._number += 1

    def _decide_servers(self, scope: str, records: Sequence[Record]) -> None:
        with self._turn:
            for record in records:
                self._decide(record)
            if records:
                self._server_marks[scope] = str(self._number)

    def _events_of(self, scope: str) -> NoEvents:
        snapshot = self._snapshots.get(scope)
        named = {server.name for server in snapshot.settings.servers} if snapshot else set()

        def part_of(server: str) -> ServerPart | None:
            name = ServerName(server)
            return self._catalog(scope).part(name) if name in named else None

        return self._events(scope, part_of)

    def _drop_uses(self, scope: str, is_gone: Callable[[ServerName], bool]) -> None:
        counted = self._counted.get(scope, {})
        kept = {key: use for key, use in counted.items() if not is_gone(key.server)}
        self._counted[scope] = kept

    def _accepted(self, scope: str) -> tuple[Acceptance, ...]:
        """What was accepted last comes last."""
        kept = self._decided.acceptances.values()
        return tuple(record.acceptance for record in kept if record.scope == scope)

    def _catalog(self, scope: str) -> Catalog:
        snapshot = self._snapshots.get(scope)
        return snapshot.catalog if snapshot else Catalog()
