"""Routes that change which servers there are: shown as a plan, and accepted by its digest."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.export_form import export_form
from discovery_engine.json_forms.plan_digest import require_shown, with_digest
from discovery_engine.json_forms.server_form import server_form
from discovery_engine.json_forms.server_plan_form import (
    pasted_form,
    server_entry_form,
    shown_plan_form,
    shown_sync_form,
    sync_plan_form,
)
from discovery_engine.owner.server_export import ExportClient
from discovery_engine.owner.server_plans import ServerPlan, Target
from discovery_server.api.route import (
    ApiRequest,
    ApiRoute,
    Digest,
    EntryBody,
    Nothing,
    ServerEntry,
)

_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Changes = Annotated[
    dict[str, Any], Meta(description="A JSON Merge Patch of its entry: null removes a key.")
]
_To = Annotated[
    Target | None, Meta(description="Into the file or the registry; the file, if one is in use.")
]
_Path = (
    Annotated[
        str,
        Meta(min_length=1, max_length=4096, description="That of the environment if null."),
    ]
    | None
)


class PastedText(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(description="A block as Claude, Cursor or VS Code have it.")]


class PastedServers(Struct, frozen=True):
    servers: list[JSONObject]


class NewServer(EntryBody, frozen=True, forbid_unknown_fields=True):
    name: _Name
    entry: ServerEntry
    to: _To = None
    wanted: bool = True


class AddServer(EntryBody, frozen=True, forbid_unknown_fields=True):
    name: _Name
    entry: ServerEntry
    digest: Digest
    to: _To = None
    wanted: bool = True


class ServerChange(EntryBody, frozen=True, forbid_unknown_fields=True):
    changes: _Changes


class ChangeServer(EntryBody, frozen=True, forbid_unknown_fields=True):
    changes: _Changes
    digest: Digest


class RemoveServer(Struct, frozen=True, forbid_unknown_fields=True):
    digest: Digest


class MissingValues(Struct, frozen=True):
    missing: Annotated[
        dict[str, str],
        Meta(description="Where its entry refers to it, by variable, or `secret:` and a name."),
    ]


class GivenValues(Struct, frozen=True, forbid_unknown_fields=True):
    values: Annotated[
        dict[str, Annotated[str, Meta(min_length=1, max_length=64 * 1024)]],
        Meta(min_length=1, description="By the names of what is missing."),
    ]


class SetupFile(Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path = None


class RegisterSetup(Struct, frozen=True, forbid_unknown_fields=True):
    digest: Digest
    path: _Path = None


class Export(Struct, frozen=True, forbid_unknown_fields=True):
    client: Annotated[ExportClient, Meta(description="Whose form it is to have.")]


async def read_pasted(request: ApiRequest[PastedText]) -> PastedServers:
    return PastedServers(
        [
            pasted_form(server)
            for server in await request.owner.servers.read_pasted(request.asked.text)
        ]
    )


async def plan_server(request: ApiRequest[NewServer]) -> JSONObject:
    return with_digest(_shown(request, await _new(request)))


async def add_server(request: ApiRequest[AddServer]) -> JSONObject:
    body, plan = request.asked, await _new(request)
    require_shown(_shown(request, plan), body.digest, f"adding {body.name!r}")
    return await _applied(request, plan)


async def plan_change(request: ApiRequest[ServerChange]) -> JSONObject:
    return with_digest(_shown(request, await _change(request)))


async def change_server(request: ApiRequest[ChangeServer]) -> JSONObject:
    plan = await _change(request)
    require_shown(_shown(request, plan), request.asked.digest, f"changing {plan.name!r}")
    return await _applied(request, plan)


async def missing_values(request: ApiRequest[Nothing]) -> MissingValues:
    return MissingValues(dict(await request.owner.servers.missing(request.path["server"])))


async def give_values(request: ApiRequest[GivenValues]) -> JSONObject:
    named, values = request.path["server"], request.asked.values
    return await _applied(request, await request.owner.servers.plan_values(named, values))


async def plan_removal(request: ApiRequest[Nothing]) -> JSONObject:
    plan = await request.owner.servers.plan_remove(request.path["server"])
    return with_digest(_shown(request, plan))


async def remove_server(request: ApiRequest[RemoveServer]) -> JSONObject:
    plan = await request.owner.servers.plan_remove(request.path["server"])
    form = _shown(request, plan)
    require_shown(form, request.asked.digest, f"removing {plan.name!r}")
    await request.owner.installer.remove(plan)
    return {**form, "written": True}


async def plan_sync(request: ApiRequest[SetupFile]) -> JSONObject:
    plan = await request.owner.servers.plan_sync(request.asked.path)
    return with_digest(shown_sync_form(plan, request.owner.settings))


async def sync_servers(request: ApiRequest[RegisterSetup]) -> JSONObject:
    plan = await request.owner.servers.plan_sync(request.asked.path)
    form = shown_sync_form(plan, request.owner.settings)
    require_shown(form, request.asked.digest, f"registering {plan.path}")
    await request.owner.servers.apply(*plan.plans)
    return sync_plan_form(plan, is_written=True)


async def server_entry(request: ApiRequest[Nothing]) -> JSONObject:
    await request.owner.complete_settings()
    return server_entry_form(request.owner.view.server_settings(request.path["server"]))


async def export_server(request: ApiRequest[Export]) -> JSONObject:
    named, client = request.path["server"], request.asked.client
    return export_form(named, await request.owner.servers.export(named, client))


async def _new(request: ApiRequest[NewServer] | ApiRequest[AddServer]) -> ServerPlan:
    body, servers = request.asked, request.owner.servers
    return await servers.plan_add(body.name, body.entry, to=body.to, wanted=body.wanted)


async def _change(request: ApiRequest[ServerChange] | ApiRequest[ChangeServer]) -> ServerPlan:
    named, changes = request.path["server"], request.asked.changes
    return await request.owner.servers.plan_change(named, changes)


def _shown(request: ApiRequest[Any], plan: ServerPlan) -> JSONObject:
    return shown_plan_form(plan, request.owner.settings)


async def _applied(request: ApiRequest[Any], plan: ServerPlan) -> JSONObject:
    form = _shown(request, plan)
    await request.owner.servers.apply(plan)
    report = request.owner.view.server(plan.name)
    return {**form, "written": True, "server": server_form(report)}


_ALL, _ONE = "/servers", "/servers/{server}"
ROUTES = (
    ApiRoute(
        "POST",
        f"{_ALL}/read",
        "Show the servers of a block that was copied from another client",
        read_pasted,
        PastedText,
        PastedServers,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ALL}/plan",
        "Show what adding a server would write and run",
        plan_server,
        NewServer,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        _ALL,
        "Add a server as shown, and approve what it runs",
        add_server,
        AddServer,
        scope="admin",
        status=201,
    ),
    ApiRoute(
        "GET",
        f"{_ONE}/entry",
        "Show the entry of a server, without values",
        server_entry,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        f"{_ONE}/export",
        "Show the entry of a server as another client writes it",
        export_server,
        Export,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/change/plan",
        "Show what changing a server would write and run",
        plan_change,
        ServerChange,
        scope="admin",
    ),
    ApiRoute(
        "PATCH",
        _ONE,
        "Change a server as shown, and approve what it runs",
        change_server,
        ChangeServer,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        f"{_ONE}/values",
        "List what the entry of a server refers to and nothing gives",
        missing_values,
        answer=MissingValues,
        scope="admin",
    ),
    ApiRoute(
        "PUT",
        f"{_ONE}/values",
        "Store missing values of a server as secrets that its entry refers to",
        give_values,
        GivenValues,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/remove/plan",
        "Show what removing a server would write",
        plan_removal,
        scope="admin",
    ),
    ApiRoute(
        "DELETE", _ONE, "Remove a server as shown", remove_server, RemoveServer, scope="admin"
    ),
    ApiRoute(
        "POST",
        f"{_ALL}/sync/plan",
        "Show what a setup file would register",
        plan_sync,
        SetupFile,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ALL}/sync",
        "Register the servers of a setup file as shown",
        sync_servers,
        RegisterSetup,
        scope="admin",
    ),
)
