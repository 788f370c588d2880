"""The protocols that every back-end of the registry implements, one for each concern.

A registry keeps, for each configuration (its *scope*), the catalog as it was last seen and what
its owner decided, so that the next start answers before any upstream is connected. Calls block:
code in an event loop makes them in a thread. All of them raise `RegistryError` if the registry
cannot be used.

    SnapshotStore   settings and catalog, as one snapshot
    DecisionStore   approvals of servers, acceptances of tools, losses of either
    ServerStore     servers that stand in no file, and switches for any server
    VectorStore     the vectors of texts, by embedding model
    UsageStore      how often tools were used that a search had found
    RequestStore    typical requests that a language model wrote for tools
    ChangeFeed      when other processes decide something
    EraStore        which revision of the protocol a server used last
    LeaseStore      what one process at a time may hold
    AgentRequestStore   what agents asked the owner for
    PresetStore     arguments of tools that the owner keeps under names
    RefreshQueue    which servers workers list next, and what they may write about them
    WebhookStore    events on their way to webhooks
    IndexStore      the search index; only a back-end on this machine, for this user, has one
    Registry        all but the last, which it may have
    ReadableRegistry  what is read of it where no engine runs
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.search.usage import UseCount
from discovery_engine.store.refresh_queue import RefreshQueue
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.store.webhook_store import WebhookStore
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

if TYPE_CHECKING:
    from discovery_engine.errors import RegistryError
    from discovery_engine.search.examples.written import WrittenRequests
    from discovery_engine.store.leases import Lease
    from discovery_engine.store.postgres.postgres_gateways import PostgresGateways
    from discovery_engine.store.preset_records import Preset
    from discovery_engine.store.request_records import AgentRequest
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.store.server_records import RegisteredServer, ServerSwitches


class RegistryHealth(Struct, frozen=True):
    """How a registry is doing that is not a file of this machine."""

    error: RegistryError | None
    """Why it does not answer; None if it does."""
    since: float | None
    """Unix time in seconds at which it was first found not to answer."""
    waiting: int
    """Writes that wait until it answers."""
    dropped: int
    """Writes that did not fit, or that it refused."""
    set_aside: int = 0
    """Writes that it did not make in time, or an acceptance that it refused, although it answers:
    they wait, too, and are tried again."""


class ReadableRegistry(Protocol):
    """The part that a command needs to answer from the registry; the protocols below say more."""

    @property
    def indexes(self) -> IndexStore | None: ...

    @property
    def health(self) -> RegistryHealth | None: ...

    def load(self, scope: str) -> Snapshot | None: ...

    def lost_at(self, scope: str) -> float | None: ...

    def servers_mark(self, scope: str) -> str: ...

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]: ...

    def requests_mark(self) -> str: ...

    def written_requests(self) -> tuple[WrittenRequests, ...]: ...

    def close(self) -> None: ...


class SnapshotStore(Protocol):
    def load(self, scope: str) -> Snapshot | None:
        """The last snapshot of a scope; None if there is none."""

    def load_settings(self, scope: str) -> Settings | None:
        """The settings of the last snapshot, without a look at its tools."""

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        """Save the settings, and name their servers as `name_servers` does.

        Of servers that they do not name, and that have no job, what is saved is dropped, unless
        `keep_others`: those with a job another process may name. Many are added and dropped in
        several transactions.
        No transport (command, arguments, environment, address, headers) is written.
        """

    def save_parts(
        self,
        scope: str,
        parts: Iterable[ServerPart],
        *,
        revision: int,
        decided: int | None = None,
        keep_newer: bool = False,
    ) -> None:
        """Replace what is saved of these servers; of many in several transactions.

        A server that the saved settings do not name is skipped: what was removed from the
        configuration meanwhile must not come back. The saved revision never decreases. `decided` is
        saved as that of the snapshot, unless another process has saved something since this
        registry last loaded or saved it; with the last of these transactions.

        With `keep_newer`, for parts that are no new listing, a server stays as another machine has
        saved it since this registry last loaded or asked for changes; these come with the next
        `changed_parts`.
        """

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        """Return what other processes saved of servers since this registry last loaded or asked.

        It may include parts that this registry saved itself. A registry that is a file returns only
        new listings and failures.
        """

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        """Drop the tools of servers (all of the scope with None), and how often they were used.

        Returns how many tools were dropped.
        """


class DecisionStore(Protocol):
    def decisions(self, scope: str) -> Decisions:
        """All approvals and acceptances of a scope, whether or not it has a snapshot."""

    def newest_decision(self) -> int:
        """The number of the newest decision in any scope; each one has the next number."""

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        """Return the approvals of `decisions`, without reading what was accepted."""

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        """Return what was accepted of one server, without reading the others."""

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        """Add approvals; `at` is Unix time in seconds. No-op for those that are there already."""

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        """Drop all approvals of servers; returns how many there were."""

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        """Add acceptances, which nothing ever drops; returns how many.

        With `if_new` only those of tools of which nothing was accepted before: if two processes
        see a tool for the first time at once, the first to write decides. None is added after a
        loss that the owner has not acknowledged.
        """

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        """All acceptances of a server's tools, in the order in which they were accepted."""

    def lost_at(self, scope: str) -> float | None:
        """Unix time in seconds at which a loss of decisions was noticed.

        None if none was lost, or the owner has acknowledged it.
        """

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        """Allow acceptance at first sight again; no-op if nothing was lost."""


class ServerStore(Protocol):
    """A store of servers and switches; these are decisions of the owner, too, with their number."""

    def servers_mark(self, scope: str) -> str:
        """Another text after every change of servers or switches; empty if there was none."""

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        """Return the servers in the order in which they were registered."""

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        """Add servers, all or none; one takes the place of another of its name."""

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        """Drop servers; returns how many there were."""

    def switches(self, scope: str) -> ServerSwitches:
        """Which servers are switched on or off by hand; all others are as their entries say."""

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        """Set switches, or drop them with None; `at` is Unix time in seconds."""


class VectorStore(Protocol):
    @property
    def shared_leases(self) -> LeaseStore:
        """Leases among all processes that share the vectors, on whatever machine."""

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """The vectors that a model gave to texts, by the digests of these; some may be missing."""

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Add vectors, by the digests of their texts, for a scope's use.

        A text has one vector under a model: a newer one replaces an older.
        """

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        """Note that a scope uses these; to be noted again each day.

        Vectors whose use was not noted for long are dropped: see `tables.vector_table`. Returns how
        many.
        """

    def vector_count(self, scope: str) -> int:
        """How many vectors a scope uses, or has used of late, of all models."""


class SearchedVectorStore(VectorStore, Protocol):
    @property
    def search(self) -> SearchDatabase | None:
        """Where tools can be searched; None if this registry is no database of PostgreSQL."""


class UsageStore(Protocol):
    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        """How often tools of the scope were used after a search had found them."""

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        """Count one; `at` is Unix time in seconds. No-op for a server that is not saved.

        The counts of a server are dropped when the server is forgotten.
        """


class RequestStore(Protocol):
    """They belong to no scope, and stay when a server or its listing is dropped."""

    def requests_mark(self) -> str:
        """Another text whenever something else is written; empty if nothing is."""

    def written_requests(self) -> tuple[WrittenRequests, ...]:
        """All that is written."""

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:
        """Add these, each in place of what was written for the same definition of a tool."""

    def forget_requests(self, tools: Collection[tuple[str, str]] | None = None) -> int:
        """Drop what was written for tools (all with None), by server and its name of the tool.

        Returns for how many definitions something was written.
        """


class ChangeFeed(Protocol):
    def changes(self) -> AsyncGenerator[None]:
        """Yield soon after another process has decided something, or had requests written.

        Of a registry that machines share also after it has saved what a server listed; of a file
        after a worker has.

        For ever.

        It yields once at first, for what was decided before it was called. Several decisions may
        be one change, and a change may turn out to be none or this process's own: who follows
        reads the decisions and compares. Unlike all else here it runs in the event loop; close it
        when it is not needed.
        """


class EraStore(Protocol):
    def load_era(self, connection: str) -> JSONObject | None:
        """How a server last introduced itself, by the fingerprint of how it is reached."""

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        """Replace it; None drops it."""


class LeaseStore(Protocol):
    """They belong to no scope. No clock is used: see `leases`."""

    def lease(self, name: str) -> Lease | None:
        """Return a lease as it is now, free or held; None if it was never held."""

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        """Take a lease that is free, or that is still exactly `instead_of`; None if it is neither.

        Of processes that try at once one gets it, with the next fence.
        """

    def renew_lease(self, lease: Lease) -> Lease | None:
        """Renew a lease that is held still; None if another holder had it since, or has it."""

    def release_lease(self, lease: Lease) -> None:
        """Let others have it; no-op if it is not held any more."""


class AgentRequestStore(Protocol):
    def agent_requests(self, scope: str) -> tuple[AgentRequest, ...]:
        """Return the requests of agents under a scope, the oldest first; a few hundred are kept."""

    def save_agent_request(self, scope: str, request: AgentRequest) -> None:
        """Add a request, or replace the one of its id."""

    def replace_agent_request(self, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
        """Replace a request if it is still exactly as `known`; returns whether it was."""


class PresetStore(Protocol):
    def presets(self, scope: str) -> tuple[Preset, ...]:
        """Return the presets of a scope, in the order of their keys."""

    def save_preset(self, scope: str, preset: Preset) -> None:
        """Add a preset, or replace the one of its key."""

    def delete_preset(self, scope: str, key: tuple[str, str, str]) -> bool:
        """Delete a preset by server, tool and name; returns whether there was one."""


class IndexStore(Protocol):
    """The search index of a scope's snapshot, in a form that only its own process may trust.

    An index is read with `marshal`, which is not safe for bytes that another user could have
    written. So it never leaves a private file of this user on this machine: a back-end that is
    shared has no `IndexStore`, and each process there builds its own index.
    """

    def load_index(self, scope: str) -> bytes | None:
        """The index that was saved last; it may be of an older snapshot.

        None as well where other users may write, or could have written, to the file.
        """

    def save_index(self, scope: str, data: bytes) -> None:
        """Replace the index; no-op for a scope without a snapshot."""


class Registry(
    SnapshotStore,
    DecisionStore,
    ServerStore,
    ChangeFeed,
    SearchedVectorStore,
    UsageStore,
    RequestStore,
    EraStore,
    LeaseStore,
    AgentRequestStore,
    PresetStore,
    RefreshQueue,
    WebhookStore,
    Protocol,
):
    @property
    def indexes(self) -> IndexStore | None:
        """None if this registry is not a private file; see `IndexStore`."""

    @property
    def health(self) -> RegistryHealth | None:
        """The health of the registry; None if it is in this process, or a file of this machine."""

    @property
    def gateways(self) -> PostgresGateways | None:
        """The state that gateways share; None if this is no database that they all may write."""

    def close(self) -> None: ...
