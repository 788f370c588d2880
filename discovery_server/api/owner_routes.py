"""Routes of what only the owner does: switches, secrets, and what agents ask for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio.to_thread
from msgspec import Meta, Struct, field

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.install_form import request_plan_form
from discovery_engine.json_forms.plan_digest import require_shown, with_digest
from discovery_engine.json_forms.request_form import request_form
from discovery_engine.json_forms.server_form import server_form
from discovery_engine.json_forms.server_plan_form import shown_plan_form
from discovery_engine.owner.agent_requests import RequestPlan, written_entry
from discovery_engine.registry.request_records import AgentRequest
from discovery_server.api.route import ApiRequest, ApiRoute, Digest, Nothing, SecretValues, Values

_LONGEST_SECRET = 64 * 1024


class AgentRequests(Struct, frozen=True):
    requests: list[JSONObject]


class RequestsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    state: Literal["waiting", "accepted", "declined", "failed"] | None = None


class RequestChoice(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    values: Values = field(default_factory=dict)
    secrets: SecretValues = field(default_factory=dict)


class Accept(RequestChoice, frozen=True, forbid_unknown_fields=True, kw_only=True):
    digest: Annotated[
        Digest | None, Meta(description="Of the plan; needed for `install` and `sync`.")
    ] = None


class Decline(Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=500, description="The agent reads it.")] = ""


class SecretNames(Struct, frozen=True):
    names: Annotated[list[str], Meta(description="Values are never shown.")]


class SecretValue(Struct, frozen=True, forbid_unknown_fields=True):
    value: Annotated[str, Meta(min_length=1, max_length=_LONGEST_SECRET)]


class SecretDeleted(Struct, frozen=True):
    deleted: bool


async def enable_server(request: ApiRequest[Nothing]) -> JSONObject:
    return await _switched(request, is_wanted=True)


async def disable_server(request: ApiRequest[Nothing]) -> JSONObject:
    return await _switched(request, is_wanted=False)


async def _switched(request: ApiRequest[Nothing], *, is_wanted: bool) -> JSONObject:
    """The server afterwards; of one that stood in another client's file also its copy."""
    servers = request.owner.servers
    plan = await servers.plan_switch(request.path["server"], is_wanted=is_wanted)
    copy_form = shown_plan_form(plan, request.owner.settings)
    await servers.apply(plan)
    form = server_form(request.owner.view.server(plan.name))
    return form | {"copy": copy_form} if plan.original else form


async def agent_requests(request: ApiRequest[RequestsQuery]) -> AgentRequests:
    requests = await request.owner.requests.list(request.asked.state)
    return AgentRequests([request_form(agent_request) for agent_request in requests])


async def plan_request(request: ApiRequest[RequestChoice]) -> JSONObject:
    plan = await _request_plan(request)
    return with_digest(request_plan_form(plan, request.owner.settings))


async def accept_request(request: ApiRequest[Accept]) -> JSONObject:
    requests, named, digest = request.owner.requests, request.path["id"], request.asked.digest
    if digest is None and not _runs_unseen(await requests.get(named)):
        return request_form(await requests.accept(named))
    plan = await _request_plan(request)
    form = request_plan_form(plan, request.owner.settings)
    require_shown(form, digest or "", f"request {named!r}")
    return request_form(await requests.accept(named, plan=plan))


def _runs_unseen(asked: AgentRequest) -> bool:
    """Return whether the request itself does not show what would be run."""
    return asked.action in ("install", "sync") and not written_entry(asked)


async def _request_plan(request: ApiRequest[Any]) -> RequestPlan:
    choice: RequestChoice = request.asked
    plan = request.owner.requests.plan
    return await plan(request.path["id"], values=choice.values, secrets=choice.secrets)


async def decline_request(request: ApiRequest[Decline]) -> JSONObject:
    body = request.asked
    declined = await request.owner.requests.decline(request.path["id"], reason=body.reason)
    return request_form(declined)


async def secret_names(request: ApiRequest[Any]) -> SecretNames:
    names = await anyio.to_thread.run_sync(request.owner.secrets.names)
    return SecretNames(list(names))


async def set_secret(request: ApiRequest[SecretValue]) -> SecretNames:
    secrets = request.owner.secrets
    await anyio.to_thread.run_sync(secrets.set, request.path["name"], request.asked.value)
    return await secret_names(request)


async def delete_secret(request: ApiRequest[Nothing]) -> SecretDeleted:
    delete = request.owner.secrets.delete
    return SecretDeleted(await anyio.to_thread.run_sync(delete, request.path["name"]))


_NAME_ROUTE = "/secrets/{name:path}"
ROUTES = (
    ApiRoute(
        "POST", "/servers/{server}/enable", "Switch a server on", enable_server, scope="admin"
    ),
    ApiRoute(
        "POST", "/servers/{server}/disable", "Switch a server off", disable_server, scope="admin"
    ),
    ApiRoute(
        "GET",
        "/requests",
        "List what agents asked for",
        agent_requests,
        RequestsQuery,
        AgentRequests,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/requests/{id}/plan",
        "Show what accepting a request would do",
        plan_request,
        RequestChoice,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/requests/{id}/accept",
        "Do what was asked for, as it was shown",
        accept_request,
        Accept,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/requests/{id}/decline",
        "Decline what was asked for",
        decline_request,
        Decline,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        "/secrets",
        "List the names of stored secrets",
        secret_names,
        answer=SecretNames,
        scope="admin",
    ),
    ApiRoute(
        "PUT", _NAME_ROUTE, "Store a secret", set_secret, SecretValue, SecretNames, scope="admin"
    ),
    ApiRoute(
        "DELETE",
        _NAME_ROUTE,
        "Delete a secret",
        delete_secret,
        answer=SecretDeleted,
        scope="admin",
    ),
)
