"""What every back-end of the registry implements, one protocol for each concern.

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
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.registry.webhook_store import WebhookStore
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

if TYPE_CHECKING:
    from discovery_engine.errors import RegistryError
    from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshJob, RefreshTarget
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.preset_records import Preset
    from discovery_engine.registry.request_records import AgentRequest
    from discovery_engine.registry.server_records import RegisteredServer, ServerSwitches
    from discovery_engine.search.database.search_store import SearchStore
    from discovery_engine.search.examples.written import WrittenRequests


class Snapshot(Struct, frozen=True):
    """The settings, without their secrets, and the catalog that was made under them."""

    settings: Settings
    catalog: Catalog
    decided: int | None = None
    """The number of the newest decision that all its verdicts take into account, if that is known:
    then they still hold under the same settings, as long as no other was made."""

    @property
    def own(self) -> Snapshot:
        """Without servers that the settings do not name: workers with other settings keep them."""
        parts, named = self.catalog.parts, self.settings.by_name
        if parts.keys() <= named.keys():
            return self
        kept = (part for name, part in parts.items() if name in named)
        return replace(self, catalog=Catalog.of(kept, revision=self.catalog.revision))


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


class SnapshotStore(Protocol):
    def load(self, scope: str) -> Snapshot | None:
        """The last snapshot of a scope; None if there is none."""

    def load_settings(self, scope: str) -> Settings | None:
        """The settings of the last snapshot, without a look at its tools."""

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        """Save the settings and drop every server that they do not name, unless `keep_others`.

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
        """Replace what is saved of these servers, in one transaction.

        A server that the saved settings do not name is skipped: what was removed from the
        configuration meanwhile must not come back. The saved revision never decreases. `decided` is
        saved as that of the snapshot, unless another process has saved something since this
        registry last loaded or saved it.

        With `keep_newer`, for parts that are no new listing, a server stays as another machine has
        saved it since this registry last loaded or asked for changes; these come with the next
        `changed_parts`.
        """

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        """What other processes saved of servers since this registry last loaded or asked.

        It may have some that this registry saved itself. Of a registry that is a file only what
        workers saved with a claim.
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
        """As in `decisions`, without a look at what was accepted."""

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        """What was accepted of one server; nothing is read of the others."""

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        """Add approvals; `at` is Unix time in seconds. No-op for those that are there already."""

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        """Drop all approvals of servers; returns how many there were."""

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        """Add acceptances, which nothing ever drops; returns how many.

        With `if_new` only those of tools of which nothing was accepted before: if two processes
        see a tool for the first time at once, the first to write decides.
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
    """What it keeps are decisions of the owner, too: with a second copy, and with their number."""

    def servers_mark(self, scope: str) -> str:
        """Another text after every change of servers or switches; empty if there was none."""

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        """In the order in which they were registered."""

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        """Add servers, all or none; one takes the place of another of its name."""

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        """Drop servers; returns how many there were."""

    def switches(self, scope: str) -> ServerSwitches:
        """Which servers are switched on or off by hand; all others are as their entries say."""

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        """Set switches, or drop them with None; `at` is Unix time in seconds."""


class VectorStore(Protocol):
    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """The vectors that a model gave to texts, by the digests of these; some may be missing."""

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Add vectors, by the digests of their texts, for a scope's use.

        A text has one vector under a model: a newer one replaces an older.
        """

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        """Let a scope use these and no others, of this model or another.

        Vectors that no scope uses are dropped; returns how many.
        """

    def vector_count(self, scope: str) -> int:
        """How many vectors a scope uses, of all models."""


class SearchedVectorStore(VectorStore, Protocol):
    @property
    def search(self) -> SearchStore | None:
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
        """As it is now, free or held; None if it was never held."""

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
        """What agents asked for under a scope, the oldest first; a few hundred are kept."""

    def save_agent_request(self, scope: str, request: AgentRequest) -> None:
        """Add a request, or replace the one of its id."""

    def replace_agent_request(self, scope: str, known: AgentRequest, new: AgentRequest) -> bool:
        """Replace a request if it is still exactly as `known`; returns whether it was."""


class PresetStore(Protocol):
    def presets(self, scope: str) -> tuple[Preset, ...]:
        """Those of a scope, in the order of their keys."""

    def save_preset(self, scope: str, preset: Preset) -> None:
        """Add a preset, or replace the one of its key."""

    def delete_preset(self, scope: str, key: tuple[str, str, str]) -> bool:
        """Delete a preset by server, tool and name; returns whether there was one."""


SaveOutcome: TypeAlias = Literal["saved", "unchanged", "lost"]


class RefreshQueue(Protocol):
    """The servers of a scope as jobs of workers; `fleet.refresh_job` and `fleet.schedule` say how.

    All times are those of the store's own clock, so clocks of workers that differ do not matter. A
    worker that was paused until another one claimed its server can write nothing about it any
    more: every verb with a `claim` reads and writes in one transaction.
    """

    def refresh_time(self) -> float:
        """The present time of the clock that all jobs have their times from."""

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        """All jobs of a scope, in the order of their servers."""

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        """Make a job for each of these servers, and drop all others of the scope.

        A new one is due at once, and so is one that is reached in another way than before; one
        with a reason is disabled until it has none. Returns how many jobs are different by it.
        """

    def claim_refreshes(
        self, scope: str, holder: str, *, limit: int, lease: float
    ) -> tuple[RefreshJob, ...]:
        """Claim up to `limit` jobs for `lease` seconds, of which no other worker gets any.

        Those that are due and those whose lease has ended; the highest priority first, then the
        one that has waited longest. Each claim raises the fence of its job. One that
        workers were lost with again and again is dead instead, and not returned.
        """

    def extend_claims(
        self, claims: Iterable[RefreshClaim], *, lease: float
    ) -> frozenset[RefreshClaim]:
        """The heartbeat: claims last for `lease` seconds from now; returns those still valid."""

    def finish_refresh(self, claim: RefreshClaim, *, tool_count: int, due_in: float) -> bool:
        """Note a success; False, and nothing is written, if the claim is not valid any more."""

    def fail_refresh(
        self, claim: RefreshClaim, code: str, message: str, *, retry_in: float | None
    ) -> bool:
        """Note a failure, tried again in `retry_in` seconds, or dead with None; as above."""

    def return_claims(self, claims: Iterable[RefreshClaim]) -> int:
        """Let others claim these jobs, as if they had not been; returns how many were held."""

    def save_claimed(
        self, claim: RefreshClaim, part: ServerPart, *, revision: int, decided: int | None = None
    ) -> SaveOutcome:
        """As `save_parts` for the claimed server, while the claim is valid.

        It is kept even if the saved settings, which may be those of an older configuration, do not
        name the server.

        A listing that is as it is saved already, but for its time, is `unchanged`: nothing is
        written, and no gateway has anything to fetch.
        """

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        """As `accept` with `if_new`, while the claim is valid; None if it is not any more.

        `scope` is that of the decisions, which may have another name than that of the jobs.
        """

    def retry_refreshes(
        self, scope: str, servers: Collection[str] | None = None
    ) -> tuple[ServerName, ...]:
        """Have servers tried again now that failed, with all attempts before them; all with None.

        Returns those it concerns.
        """

    def hasten_refreshes(
        self, scope: str, servers: Collection[str] | None = None, *, priority: int = 0
    ) -> tuple[ServerName, ...]:
        """Have servers listed now, however lately they were; returns those it concerns.

        A job that is processed is due again when it ends; one that is dead or disabled stays so.
        """

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        """The servers that workers list in time: none of them is due since more than `grace` s."""

    def seconds_until_refresh(self, scope: str) -> float | None:
        """Seconds until a job can be claimed, 0 if one can be now; None if none ever can."""


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
        """Whether it answers; None if this process has it, or a file of this machine."""

    def close(self) -> None: ...
