"""Requests of agents to their owner: `engine.requests`.

An agent can never install, remove, enable or disable anything itself. It submits a request, which
the owner reads in full and accepts or declines. The agent can read the decision later.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from msgspec.structs import replace

from discovery_engine._util.suggestions import nearest
from discovery_engine.engine.owner.server_plans import ServerPlan
from discovery_engine.engine.owner.setup_sync import SyncPlan
from discovery_engine.errors import (
    DiscoveryError,
    InstallFailedError,
    MissingInputsError,
    NotFoundError,
    PackageManagerError,
    RegistryError,
    SecretStoreError,
)
from discovery_engine.store.stored_records import AgentAction, AgentRequest, RequestState

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine
    from discovery_engine.marketplace.installer.offered_inputs import GivenValues
    from discovery_engine.marketplace.installer.plan import InstallPlan

_MOST_WAITING = 20  # requests per scope; an owner would not read more
_DECLINED_FOR = 86_400.0  # seconds in which a declined request is not submitted again
_LONGEST_DECISION = 900.0  # seconds until a decision counts as abandoned; installing takes minutes
_PASSING = (
    InstallFailedError,
    MissingInputsError,
    PackageManagerError,
    RegistryError,
    SecretStoreError,
)
_MAX_REQUEST_ARGUMENTS_LENGTH = 4096  # characters of the arguments of a request


RequestPlan: TypeAlias = "InstallPlan | SyncPlan | ServerPlan"
"""The plan of the effects of a request."""


class AgentRequestNotFoundError(NotFoundError):
    """No request of that id exists, or it does not wait for a decision."""

    code = "REQUEST_NOT_FOUND"

    def __init__(self, request_id: str, names: list[str]) -> None:
        hint = "`discovery review requests` lists them"
        super().__init__(f"no request {request_id!r} waits", nearest(request_id, names), hint=hint)


class RequestRefusedError(DiscoveryError):
    """A request was rejected without showing it to the owner."""

    code = "REQUEST_REFUSED"


class AgentRequests:
    """Submits, lists and decides requests; available as `engine.requests`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._core = core
        self._store = core.store
        self._clock = core.environment.clock

    async def list(self, state: RequestState | None = None) -> tuple[AgentRequest, ...]:
        """Return the requests in a state, or all, the oldest first.

        Raises:
            RegistryError: If the requests cannot be read.
        """
        requests = await anyio.to_thread.run_sync(self._store.agent_requests, self._scope)
        return tuple(request for request in requests if state in (None, request.state))

    async def get(self, request_id: str) -> AgentRequest:
        """Return one request, in whatever state.

        Raises:
            AgentRequestNotFoundError: If there is none; the error suggests the nearest ids.
            RegistryError: If the requests cannot be read.
        """
        requests = {request.id: request for request in await self.list()}
        if request_id not in requests:
            raise AgentRequestNotFoundError(request_id, list(requests))
        return requests[request_id]

    async def submit(
        self,
        action: AgentAction,
        name: str = "",
        arguments: JSONObject | None = None,
        *,
        client: str,
    ) -> AgentRequest:
        """Submit a request to the owner and return it.

        An equal request that waits, or was declined within the last day, is returned instead.

        Args:
            action: The kind of request.
            name: The name of a server, or of a marketplace entry to install.
            arguments: Details, such as an entry that the agent wrote itself.
            client: A label of the client that makes the request.

        Raises:
            RequestRefusedError: If 20 requests wait already, or if the arguments are too long or
                contain a `${reference}`.
            MarketplaceEntryNotFoundError: If no source has the entry to install.
            MarketplaceEntryAmbiguousError: If several servers have that name.
            InvalidPackageNameError: If the name is invalid.
            RegistryError: If the request cannot be stored.
        """
        request = AgentRequest(
            secrets.token_hex(4), action, name, arguments or {}, client, self._clock()
        )
        if "${" in f"{name}{arguments}":
            # A reference would expand to a value of the owner, which the server would receive.
            raise RequestRefusedError("a request holds no ${reference}; the user enters values")
        if len(str(request.arguments)) > _MAX_REQUEST_ARGUMENTS_LENGTH:
            raise RequestRefusedError("what is given with the request is too long")
        requests = await self.list()
        for earlier_request in reversed(requests):
            if earlier_request.asks_the_same(request) and self._stands(earlier_request):
                return earlier_request
        if sum(earlier_request.state == "waiting" for earlier_request in requests) >= _MOST_WAITING:
            text = f"{_MOST_WAITING} requests wait for the owner already"
            raise RequestRefusedError(
                text, hint="ask the user to look at `discovery review requests`"
            )
        if action == "install" and not written_entry(request):
            await self._engine.marketplace.lookup(name)
        await self._keep(request)
        return request

    async def plan(
        self,
        request_id: str,
        *,
        values: GivenValues | None = None,
        secrets: GivenValues | None = None,
    ) -> RequestPlan:
        """Return the plan of accepting a request; nothing is changed.

        Args:
            request_id: The id of a request that waits.
            values: The inputs of a server to install; see `Installer.plan_install`.
            secrets: The inputs that will be stored as secrets; see `Installer.plan_install`.

        Raises:
            AgentRequestNotFoundError: If the request does not wait.
            DiscoveryError: If planning the requested action fails.
        """
        request = await self.get(request_id)
        if request.state != "waiting":
            raise AgentRequestNotFoundError(request_id, [])
        return await self._planned(request, values or {}, secrets or {})

    async def accept(self, request_id: str, *, plan: RequestPlan | None = None) -> AgentRequest:
        """Execute a request and mark it as accepted, or as failed if it raises an error.

        After an error that may be temporary it continues to wait: a missing input, a failed
        installation or package manager, or a store that cannot be used.

        Args:
            request_id: The id of a request that waits.
            plan: The plan that the owner saw; a new one is made if None.

        Raises:
            AgentRequestNotFoundError: If it does not wait, or another process decides it.
            DiscoveryError: If the requested action fails.
        """
        request = await self._claimed(request_id)
        try:
            outcome = await self._done(request, plan)
        except _PASSING:
            await self._save(request, "waiting")
            raise
        except DiscoveryError as error:
            await self._save(request, "failed", f"{error.code}: {error.message}")
            raise
        except BaseException:  # cancelled, or a bug: nothing was decided
            with anyio.CancelScope(shield=True):
                await self._save(request, "waiting")
            raise
        return await self._save(request, "accepted", outcome)

    async def decline(self, request_id: str, *, reason: str = "") -> AgentRequest:
        """Decline a request; the agent can read the reason.

        Raises:
            AgentRequestNotFoundError: If it does not wait, or another process decides it.
        """
        return await self._save(await self._claimed(request_id), "declined", reason)

    @property
    def _scope(self) -> str:
        return self._core.decision_scope

    async def _planned(
        self, request: AgentRequest, values: GivenValues, secrets: GivenValues
    ) -> RequestPlan:
        servers = self._engine.servers
        match request.action:
            case "activate" | "deactivate":
                is_wanted = request.action == "activate"
                return await servers.plan_switch(request.name, is_wanted=is_wanted)
            case "uninstall":
                return await servers.plan_remove(request.name)
            case "sync":
                return await servers.plan_sync()
            case "install":
                if entry := written_entry(request):
                    return await servers.plan_add(request.name, entry)
                install = self._engine.installer.plan_install
                return await install(request.name, values=values, secrets=secrets)

    async def _done(self, request: AgentRequest, plan: RequestPlan | None) -> str:
        """Execute a request by its plan; return the outcome: a server name, or counts of a sync."""
        servers, installer = self._engine.servers, self._engine.installer
        match plan or await self._planned(request, {}, {}):
            case ServerPlan(verb="remove", name=name) as removal:
                await installer.remove(removal)
                return name
            case ServerPlan() as change:
                await servers.apply(change)
                return change.name
            case SyncPlan(_, plans, report):
                await servers.apply(*plans)
                return f"{len(plans)} registered, {len(report.errors)} errors"
            case install:
                return (await installer.install(install)).name

    async def _claimed(self, request_id: str) -> AgentRequest:
        """Claim a waiting request by compare-and-swap, so that no other process decides it.

        Raises:
            AgentRequestNotFoundError: If it does not wait, or another process claimed it.
        """
        requests = {entry.id: entry for entry in await self.list()}
        request = requests.get(request_id)
        if request and self._may_be_decided(request):
            claimed = replace(request, state="deciding", decided_at=self._clock())
            swap = partial(self._store.replace_agent_request, self._scope, request, claimed)
            if await anyio.to_thread.run_sync(swap):
                return claimed
        waiting = [entry.id for entry in requests.values() if entry.state == "waiting"]
        raise AgentRequestNotFoundError(request_id, waiting)

    def _may_be_decided(self, request: AgentRequest) -> bool:
        """Return whether a request waits, or was claimed by a process that abandoned it."""
        since = self._clock() - (request.decided_at or 0.0)
        is_left = request.state == "deciding" and since > _LONGEST_DECISION
        return request.state == "waiting" or is_left

    async def _save(
        self, request: AgentRequest, state: RequestState, outcome: str = ""
    ) -> AgentRequest:
        at = None if state == "waiting" else self._clock()
        decided = replace(request, state=state, decided_at=at, outcome=outcome)
        await self._keep(decided)
        return decided

    async def _keep(self, request: AgentRequest) -> None:
        await anyio.to_thread.run_sync(self._store.save_agent_request, self._scope, request)

    def _stands(self, request: AgentRequest) -> bool:
        """Return whether a request stands for an equal one that is submitted now."""
        if request.state in ("waiting", "deciding"):
            return True
        at = request.decided_at or 0.0
        return request.state == "declined" and self._clock() - at < _DECLINED_FOR


def written_entry(request: AgentRequest) -> JSONObject | None:
    """Return the entry that the agent wrote; None if it named a marketplace entry."""
    arguments = request.arguments
    if not arguments.get("command"):
        return None
    keys = ("command", "args", "description", "tags")
    # Nobody has reviewed the entry yet, so it gets a sandbox.
    return {key: arguments[key] for key in keys if arguments.get(key)} | {"sandbox": "auto"}
