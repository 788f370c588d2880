"""Routes that connect MCP clients of this machine: shown as a plan, and confirmed by its digest."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.config.files.data_folder import data_folder
from discovery_engine.config.serve_settings import ServeMode
from discovery_engine.engine.json_forms.owner_forms import shown_diff
from discovery_engine.engine.owner.connected_clients import (
    Connection,
    Machine,
    find_place,
    links_of,
    plan_connection,
    plan_undo,
)
from discovery_engine.engine.owner.gateway_command import GatewayCommand, gateway_command
from discovery_engine.engine.owner.server_export import program_entry
from discovery_engine.view.scope import named_scope
from discovery_server.api.route import (
    ApiRequest,
    Confirmation,
    Nothing,
    RequestError,
    Routes,
    to_confirm,
)
from discovery_server.surfaces import HOSTS, OTHER_HOSTS

routes = Routes()


class ClientList(Struct, frozen=True):
    clients: Annotated[list[JSONObject], Meta(description="Those that are on this machine.")]
    links: Annotated[
        dict[str, str], Meta(description="What opens a client with the entry, by its id.")
    ]


class ConnectClient(Struct, frozen=True, forbid_unknown_fields=True):
    action: Annotated[
        Literal["connect", "undo"],
        Meta(description="Write the entry of this gateway, or restore the file."),
    ] = "connect"
    view: Annotated[str, Meta(description="Serve only what this view shows.")] = ""
    digest: Confirmation = None


class HostForm(Struct, frozen=True):
    client: Annotated[str, Meta(description="Its name in `clientInfo`; empty for all others.")]
    title: str
    reason: Annotated[str, Meta(description="How it finds a tool in the present mode.")]
    gets: Annotated[str, Meta(description="The tools that it is shown in the present mode.")]


class HostList(Struct, frozen=True):
    mode: Annotated[ServeMode, Meta(description="`server.mode`.")]
    hosts: list[HostForm]


class SetMode(Struct, frozen=True, forbid_unknown_fields=True):
    mode: ServeMode
    digest: Confirmation = None


@routes("GET", "/clients")
async def clients(request: ApiRequest[Nothing]) -> ClientList:
    """List the MCP clients of this machine, and links that add this gateway to one."""
    forms = await run_sync(_machine(request).forms)
    return ClientList(forms, links_of(_command(request, "")))


@routes("PUT", "/clients/{client}")
async def connect_client(request: ApiRequest[ConnectClient]) -> JSONObject:
    """Show what connects a client or takes its entry out, or do it as shown."""
    body, machine = request.asked, _machine(request)
    client = machine.clients.get(request.path["client"])
    place = find_place(machine.locator, client, in_project=False) if client else None
    if client is None or place is None or not place.is_here:
        hint = "`GET /clients` lists those that are"
        raise RequestError(404, "no such client is on this machine", hint=hint)
    if body.action == "undo":
        connection = await run_sync(plan_undo, place, machine.records, machine.locator)
    else:
        command = _command(request, body.view)
        entry_of = partial(program_entry, client, words=command.words, env=command.env)
        connection = await run_sync(
            plan_connection, place, entry_of, machine.records, machine.locator
        )
    form = _form(connection)
    shown = to_confirm(form, body.digest, f"changing the file of {client.id!r}")
    if shown is not None:
        return shown
    if not connection.is_empty:
        await run_sync(connection.apply)
    return {**form, "written": not connection.is_empty}


@routes("GET", "/hosts")
async def hosts(request: ApiRequest[Nothing]) -> HostList:
    """List which tools clients are shown, and why."""
    mode = request.owner.settings.server.mode
    known = [*HOSTS.items(), ("", OTHER_HOSTS)]
    forms = [
        HostForm(name, host.title, host.search_in(mode), host.tools_in(mode))
        for name, host in known
    ]
    return HostList(mode, forms)


@routes("PUT", "/hosts")
async def set_mode(request: ApiRequest[SetMode]) -> JSONObject:
    """Show what sets `server.mode` in the file, or write it as shown."""
    body, owner = request.asked, request.owner
    edit = await owner.changes.plan_mode(body.mode)
    form = {"path": str(edit.path), "diff": shown_diff(edit.diff(), owner.settings)}
    if to_show := to_confirm(form, body.digest, f"setting `server.mode` to {body.mode!r}"):
        return to_show
    await run_sync(edit.apply)
    await owner.reload()
    return {**form, "written": not edit.is_empty}


def _form(connection: Connection) -> JSONObject:
    return {
        "client": connection.place.client.id,
        "label": connection.place.client.label,
        "path": str(connection.place.path),
        "entry": connection.name,
        "diff": connection.diff(),
        "restored": connection.is_restored,
        "deleted": connection.is_deleted,
    }


def _machine(request: ApiRequest[Any]) -> Machine:
    return Machine.here(str(request.owner.registry_file.parent))


def _command(request: ApiRequest[Any], view: str) -> GatewayCommand:
    """Return the command with which a client starts a gateway like this one."""
    settings, data = request.owner.settings, str(request.owner.registry_file.parent)
    if settings.is_untrusted_origin:
        message = "the configuration was found in a project, and clients would start what it has"
        hint = "start the gateway with `--config PATH`, if it is yours"
        raise RequestError(409, message, hint=hint)
    if view:
        named_scope(settings, view)
    own_data = None if data == data_folder(None, os.environ) else data
    path = Path(settings.path) if settings.path else None
    return gateway_command(path, os.environ, data_dir=own_data, view=view)
