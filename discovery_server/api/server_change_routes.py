"""Routes that change which servers there are: shown as a plan, and confirmed by its digest."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine.engine.json_forms.catalog_forms import refresh_form, server_form
from discovery_engine.engine.json_forms.owner_forms import (
    pasted_form,
    server_entry_form,
    shown_plan_form,
    shown_sync_form,
    sync_plan_form,
)
from discovery_engine.engine.owner.server_export import ExportClient
from discovery_engine.engine.owner.server_plans import ServerPlan, Target
from discovery_server.api.route import (
    ApiRequest,
    Confirmation,
    EntryBody,
    Nothing,
    Routes,
    ServerEntry,
    to_confirm,
)

routes = Routes()


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
    digest: Confirmation = None


class ServerChange(EntryBody, frozen=True, forbid_unknown_fields=True):
    changes: _Changes
    digest: Confirmation = None


class RemoveServer(Struct, frozen=True, forbid_unknown_fields=True):
    secrets: Annotated[
        Literal["keep", "delete"],
        Meta(description="What becomes of those stored for an installed server."),
    ] = "keep"
    digest: Confirmation = None


class ServerAction(Struct, frozen=True, forbid_unknown_fields=True):
    action: Annotated[
        Literal["enable", "disable", "restart", "ping"],
        Meta(description="A restart ends its sessions, and lists its tools anew."),
    ]
    timeout: Annotated[float, Meta(gt=0, le=60, description="Seconds, of a ping.")] = 10.0


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    timeout: Annotated[
        float, Meta(gt=0, le=600, description="Seconds for the person in the browser.")
    ] = 300.0
    call_id: Annotated[
        str, Meta(max_length=64, description="With it `DELETE /calls/{call_id}` cancels the login.")
    ] = ""


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
    client: Annotated[str, Meta(max_length=100, description="The file is that of this client.")] = (
        ""
    )
    demo: Annotated[bool, Meta(description="The servers of the demo, of no file.")] = False
    digest: Confirmation = None


class EntryForm(Struct, frozen=True, forbid_unknown_fields=True):
    client: Annotated[
        ExportClient | None, Meta(description="As this client writes it; null for our own form.")
    ] = None


@routes("POST", "/servers/read")
async def read_pasted(request: ApiRequest[PastedText]) -> PastedServers:
    """Show the servers of a block that was copied from another client."""
    return PastedServers(
        [
            pasted_form(server)
            for server in await request.owner.servers.read_pasted(request.asked.text)
        ]
    )


@routes("POST", "/servers")
async def add_server(request: ApiRequest[NewServer]) -> JSONObject:
    """Add a server as shown, and approve what it runs."""
    body, servers = request.asked, request.owner.servers
    plan = await servers.plan_add(body.name, body.entry, to=body.to, wanted=body.wanted)
    return await _confirmed(request, plan, f"adding {body.name!r}")


@routes("PATCH", "/servers/{server}")
async def change_server(request: ApiRequest[ServerChange]) -> JSONObject:
    """Change a server as shown, and approve what it runs."""
    named, changes = request.path["server"], request.asked.changes
    plan = await request.owner.servers.plan_change(named, changes)
    return await _confirmed(request, plan, f"changing {plan.name!r}")


@routes("POST", "/servers/sync")
async def sync_servers(request: ApiRequest[SetupFile]) -> JSONObject:
    """Register the servers of a setup file or a client as shown."""
    body, servers = request.asked, request.owner.servers
    if body.demo:
        plan = await servers.plan_demo()
    else:
        plan = await servers.plan_sync(body.path, client=body.client)
    form = shown_sync_form(plan, request.owner.settings)
    if to_show := to_confirm(form, body.digest, f"registering {plan.path}"):
        return to_show
    await servers.apply(*plan.plans)
    return sync_plan_form(plan, is_written=True)


@routes("POST", "/servers/{server}")
async def act_on_server(request: ApiRequest[ServerAction]) -> JSONObject:
    """Switch a server on or off, restart it, or try whether it answers, and how fast."""
    named, body, owner = request.path["server"], request.asked, request.owner
    match body.action:
        case "restart":
            return refresh_form(await owner.restart(named), owner.view)
        case "ping":
            [result] = await owner.probe([named], max_wait=body.timeout)
            return result.to_json()
    return await _switched(request, is_wanted=body.action == "enable")


async def _switched(request: ApiRequest[Any], *, is_wanted: bool) -> JSONObject:
    """Return the server, and if it stood in another client's file, its copy in the owner's."""
    servers = request.owner.servers
    plan = await servers.plan_switch(request.path["server"], is_wanted=is_wanted)
    copy_form = _shown(request, plan)
    await servers.apply(plan)
    form = server_form(request.owner.view.server(plan.name))
    return form | {"copy": copy_form} if plan.original else form


@routes("GET", "/servers/{server}/values")
async def missing_values(request: ApiRequest[Nothing]) -> MissingValues:
    """List what the entry of a server refers to and nothing gives."""
    return MissingValues(dict(await request.owner.servers.missing(request.path["server"])))


@routes("PUT", "/servers/{server}/values")
async def give_values(request: ApiRequest[GivenValues]) -> JSONObject:
    """Store missing values of a server as secrets that its entry refers to."""
    named, values = request.path["server"], request.asked.values
    return await _applied(request, await request.owner.servers.plan_values(named, values))


@routes("POST", "/servers/{server}/login")
async def log_in(request: ApiRequest[Login]) -> JSONObject:
    """Log in to a server; the event `login_address` has what its owner opens in a browser."""
    owner, name = request.owner, request.owner.view.server(request.path["server"]).name
    show = partial(request.calls.announce_login, name)
    running = request.calls.running(request.asked.call_id, user=request.user, server=name)
    with running if request.asked.call_id else nullcontext():
        await owner.logins.log_in(name, show, timeout=request.asked.timeout)
    return refresh_form(await owner.refresh([name]), owner.view)


@routes("DELETE", "/servers/{server}")
async def remove_server(request: ApiRequest[RemoveServer]) -> JSONObject:
    """Remove a server as shown, with what was installed for it."""
    installer, named = request.owner.installer, request.path["server"]
    plan = await request.owner.servers.plan_remove(named)
    is_clean = request.asked.secrets == "delete"
    secrets = list(await installer.secrets_of(plan.name))
    form = _shown(request, plan) | {
        "deleted_secrets": secrets if is_clean else [],
        "kept_secrets": [] if is_clean else secrets,
    }
    if is_clean:
        await installer.installed(named)  # only then its secrets are for it alone
    if to_show := to_confirm(form, request.asked.digest, f"removing {plan.name!r}"):
        return to_show
    await installer.remove(plan, secrets if is_clean else ())
    return {**form, "written": True}


@routes("GET", "/servers/{server}/entry")
async def server_entry(request: ApiRequest[EntryForm]) -> JSONObject:
    """Show the entry of a server without values, also as another client writes it."""
    named, client = request.path["server"], request.asked.client
    if client is not None:
        exported = await request.owner.servers.export(named, client)
        return {"server": named, **to_builtins(exported)}
    await request.owner.complete_settings()
    return server_entry_form(request.owner.view.server_settings(named))


def _shown(request: ApiRequest[Any], plan: ServerPlan) -> JSONObject:
    return shown_plan_form(plan, request.owner.settings)


async def _confirmed(request: ApiRequest[Any], plan: ServerPlan, subject: str) -> JSONObject:
    to_show = to_confirm(_shown(request, plan), request.asked.digest, subject)
    return to_show or await _applied(request, plan)


async def _applied(request: ApiRequest[Any], plan: ServerPlan) -> JSONObject:
    form = _shown(request, plan)
    await request.owner.servers.apply(plan)
    report = request.owner.view.server(plan.name)
    return {**form, "written": True, "server": server_form(report)}
