"""Requests of agents to their owner: `engine.requests`.

An agent's words never install, remove or switch anything. They make a request, which the owner sees
in full, and accepts or declines. The agent reads later what became of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
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
    from discovery_engine.engine.engine import Engine
    from discovery_engine.marketplace.installer.offered_inputs import GivenValues
    from discovery_engine.marketplace.installer.plan import InstallPlan
    from discovery_engine.store.registry import Registry

_MOST_WAITING = 20  # of one scope; an owner reads no more
_DECLINED_FOR = 86_400.0  # seconds in which the same request is not made again
_LONGEST_DECISION = 900.0  # seconds; an installation takes minutes
_PASSING = (
    InstallFailedError,
    MissingInputsError,
    PackageManagerError,
    RegistryError,
    SecretStoreError,
)
_MAX_REQUEST_ARGUMENTS_LENGTH = 4096  # characters of what an agent gives with a request, as JSON


RequestPlan: TypeAlias = "InstallPlan | SyncPlan | ServerPlan"
"""The plan of what a request would do."""


class AgentRequestNotFoundError(NotFoundError):
    code = "REQUEST_NOT_FOUND"

    def __init__(self, request_id: str, names: list[str]) -> None:
        hint = "`discovery review requests` lists them"
        super().__init__(f"no request {request_id!r} waits", nearest(request_id, names), hint=hint)


class RequestRefusedError(DiscoveryError):
    """A request that is not even put before the owner."""

    code = "REQUEST_REFUSED"


class AgentRequests:
    """Made by the engine; `clock` returns Unix time in seconds, `scope` the scope of decisions."""

    def __init__(
        self,
        host: Engine,
        store: Registry,
        scope: Callable[[], str],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._host = host
        self._store = store
        self._scope = scope
        self._clock = clock

    async def list(self, state: RequestState | None = None) -> tuple[AgentRequest, ...]:
        """The requests in a state, or all, the oldest first.

        Raises:
            RegistryError: If they cannot be read.
        """
        requests = await anyio.to_thread.run_sync(self._store.agent_requests, self._scope())
        return tuple(request for request in requests if state in (None, request.state))

    async def get(self, request_id: str) -> AgentRequest:
        """One request.

        Raises:
            AgentRequestNotFoundError: If there is none of that id; with the nearest.
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
        """Put a request before the owner; the one that is there if the same was made already.

        What was declined is not asked for again within a day.

        Raises:
            RequestRefusedError: If too many wait, or what is given with it is too long, or refers
                to values of the owner.
            MarketplaceEntryNotFoundError: If no source has what is to be installed.
            MarketplaceEntryAmbiguousError: If several servers have that name.
            InvalidPackageNameError: If no server can have it.
            RegistryError: If it cannot be kept.
        """
        request = AgentRequest(
            secrets.token_hex(4), action, name, arguments or {}, client, self._clock()
        )
        if "${" in f"{name}{arguments}":
            # It would stand for a value of the owner's, which the server would then have.
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
            await self._host.marketplace.lookup(name)
        await self._keep(request)
        return request

    async def plan(
        self,
        request_id: str,
        *,
        values: GivenValues | None = None,
        secrets: GivenValues | None = None,
    ) -> RequestPlan:
        """Return what accepting a request would do; nothing is done.

        Args:
            request_id: The id of a request that waits.
            values: For what is installed from the marketplace, as `Installer.plan_install` has it.
            secrets: The same for what is to be stored.

        Raises:
            AgentRequestNotFoundError: If it does not wait.
            DiscoveryError: As the verb that it asks for.
        """
        request = await self.get(request_id)
        if request.state != "waiting":
            raise AgentRequestNotFoundError(request_id, [])
        return await self._planned(request, values or {}, secrets or {})

    async def accept(self, request_id: str, *, plan: RequestPlan | None = None) -> AgentRequest:
        """Do what a request asks for; if that cannot be done, it has failed, with the reason.

        It waits on if only a value is missing, or something cannot be reached or kept now.

        Args:
            request_id: The id of a request that waits.
            plan: What is done, as its owner saw it; planned anew if None.

        Raises:
            AgentRequestNotFoundError: If it does not wait, or is being decided elsewhere.
            DiscoveryError: As the verb that it asks for.
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
        except BaseException:  # cancelled, or a defect: nothing was decided
            with anyio.CancelScope(shield=True):
                await self._save(request, "waiting")
            raise
        return await self._save(request, "accepted", outcome)

    async def decline(self, request_id: str, *, reason: str = "") -> AgentRequest:
        """Decline a request; the agent reads the reason.

        Raises:
            AgentRequestNotFoundError: If it does not wait.
        """
        return await self._save(await self._claimed(request_id), "declined", reason)

    async def _planned(
        self, request: AgentRequest, values: GivenValues, secrets: GivenValues
    ) -> RequestPlan:
        servers = self._host.servers
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
                install = self._host.installer.plan_install
                return await install(request.name, values=values, secrets=secrets)

    async def _done(self, request: AgentRequest, plan: RequestPlan | None) -> str:
        """Do it; what came of it, in a word."""
        servers, installer = self._host.servers, self._host.installer
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
        """A request that waits, which no other process decides from now on.

        Raises:
            AgentRequestNotFoundError: If there is none.
        """
        requests = {entry.id: entry for entry in await self.list()}
        request = requests.get(request_id)
        if request and self._may_be_decided(request):
            claimed = replace(request, state="deciding", decided_at=self._clock())
            swap = partial(self._store.replace_agent_request, self._scope(), request, claimed)
            if await anyio.to_thread.run_sync(swap):
                return claimed
        waiting = [entry.id for entry in requests.values() if entry.state == "waiting"]
        raise AgentRequestNotFoundError(request_id, waiting)

    def _may_be_decided(self, request: AgentRequest) -> bool:
        """Also one whose process has ended in the middle."""
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
        await anyio.to_thread.run_sync(self._store.save_agent_request, self._scope(), request)

    def _stands(self, request: AgentRequest) -> bool:
        """Return whether a request would answer the same one made now."""
        if request.state in ("waiting", "deciding"):
            return True
        at = request.decided_at or 0.0
        return request.state == "declined" and self._clock() - at < _DECLINED_FOR


def written_entry(request: AgentRequest) -> JSONObject | None:
    """The entry that an agent wrote itself; None if it asked for one of the marketplace."""
    arguments = request.arguments
    if not arguments.get("command"):
        return None
    keys = ("command", "args", "description", "tags")
    # No one has reviewed it before its owner does.
    return {key: arguments[key] for key in keys if arguments.get(key)} | {"sandbox": "auto"}
