"""Routes of installed servers: planned, and then done as it was shown."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from discovery_engine._util.json import JSONObject
from discovery_engine.installer.install_records import Grants, InstalledServer
from discovery_engine.installer.plan import InstallPlan, UpdatePlan
from discovery_engine.json_forms.install_form import (
    rollback_plan_form,
    uninstall_plan_form,
    update_form,
    update_plan_form,
)
from discovery_engine.json_forms.plan_digest import require_shown, with_digest
from discovery_engine.owner.server_plans import Target
from discovery_server.api.route import (
    ApiRequest,
    ApiRoute,
    Digest,
    Name,
    Nothing,
    SecretValues,
    Value,
    Values,
)


class InstallChoice(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"server": "as"}
):
    name: Annotated[Name, Meta(min_length=1, description="As a search gives it.")]
    server: Annotated[Name, Meta(description="What it will be called; else a short form.")] = ""
    offer: Annotated[Name, Meta(description="`npm`, `remote` …; else the first that runs.")] = ""
    version: Annotated[Name, Meta(description="Of the package; else that of the entry.")] = ""
    values: Values = field(default_factory=dict)
    secrets: SecretValues = field(default_factory=dict)
    network: Annotated[bool, Meta(description="Whether its sandbox gives it the network.")] = True
    read: Annotated[tuple[Value, ...], Meta(description="What its sandbox lets it read.")] = ()
    write: Annotated[tuple[Value, ...], Meta(description="And change.")] = ()
    to: Annotated[
        Target | None,
        Meta(description="Where it is entered; null for the file, if one is in use."),
    ] = None


class Installation(InstallChoice, frozen=True, forbid_unknown_fields=True, kw_only=True):
    digest: Digest


class UpdateChoice(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    values: Values = field(default_factory=dict)
    secrets: SecretValues = field(default_factory=dict)


class Update(UpdateChoice, frozen=True, forbid_unknown_fields=True, kw_only=True):
    digest: Digest


class Rollback(Struct, frozen=True, forbid_unknown_fields=True):
    digest: Digest


class UninstallChoice(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    secrets: Annotated[
        Literal["keep", "delete"], Meta(description="What becomes of those stored for it.")
    ] = "keep"


class Uninstallation(UninstallChoice, frozen=True, forbid_unknown_fields=True, kw_only=True):
    digest: Digest


class Updates(Struct, frozen=True):
    servers: list[JSONObject]


async def plan_installation(request: ApiRequest[InstallChoice]) -> JSONObject:
    return with_digest((await _installation(request)).to_json())


async def install_server(request: ApiRequest[Installation]) -> JSONObject:
    plan = await _installation(request)
    require_shown(plan.to_json(), request.asked.digest, f"installing {plan.name!r}")
    done = await request.owner.installer.install(plan)
    return {**plan.to_json(), "name": done.name, "installed": True, "problem": done.problem or None}


async def list_updates(request: ApiRequest[Nothing]) -> Updates:
    return Updates([update_form(update) for update in await request.owner.installer.plan_updates()])


async def plan_server_update(request: ApiRequest[UpdateChoice]) -> JSONObject:
    return with_digest(update_plan_form(await _update(request)))


async def update_server(request: ApiRequest[Update]) -> JSONObject:
    plan = await _update(request)
    require_shown(update_plan_form(plan), request.asked.digest, f"updating {plan.name!r}")
    await request.owner.installer.update(plan)
    return update_form(plan, is_done=True)


async def plan_server_rollback(request: ApiRequest[Nothing]) -> JSONObject:
    return with_digest(rollback_plan_form(await _installed(request)))


async def roll_server_back(request: ApiRequest[Rollback]) -> JSONObject:
    record = await _installed(request)
    subject = f"going back with {record.name!r}"
    require_shown(rollback_plan_form(record), request.asked.digest, subject)
    done = await request.owner.installer.rollback(request.path["server"])
    return {"name": done.name, "version": done.pin.version}


async def plan_server_removal(request: ApiRequest[UninstallChoice]) -> JSONObject:
    return with_digest(await _removal(request))


async def uninstall_server(request: ApiRequest[Uninstallation]) -> JSONObject:
    form = await _removal(request)
    require_shown(form, request.asked.digest, f"uninstalling {form['name']!r}")
    delete = request.asked.secrets == "delete"
    await request.owner.installer.uninstall(request.path["server"], delete_secrets=delete)
    return {"name": form["name"], "removed": True, "kept_secrets": form["kept_secrets"]}


async def _installation(request: ApiRequest[Any]) -> InstallPlan:
    choice: InstallChoice = request.asked
    return await request.owner.installer.plan_install(
        choice.name,
        server=choice.server,
        offer=choice.offer,
        version=choice.version,
        values=choice.values,
        secrets=choice.secrets,
        grants=Grants(network=choice.network, read=choice.read, write=choice.write),
        to=choice.to,
    )


async def _update(request: ApiRequest[Any]) -> UpdatePlan:
    choice: UpdateChoice = request.asked
    return await request.owner.installer.plan_update(
        request.path["server"], values=choice.values, secrets=choice.secrets
    )


async def _installed(request: ApiRequest[Any]) -> InstalledServer:
    return await request.owner.installer.installed(request.path["server"])


async def _removal(request: ApiRequest[Any]) -> JSONObject:
    record = await _installed(request)
    stored = await request.owner.installer.secrets_of(record.name)
    delete = request.asked.secrets == "delete"
    return uninstall_plan_form(record, stored, delete_secrets=delete)


_ONE = "/servers/{server}"
ROUTES = (
    ApiRoute(
        "POST",
        "/install/plan",
        "Show what an installation would do",
        plan_installation,
        InstallChoice,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/install",
        "Install a server as it was shown",
        install_server,
        Installation,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        "/marketplace/updates",
        "Show what updates of installed servers would change",
        list_updates,
        answer=Updates,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/update/plan",
        "Show what an update would do",
        plan_server_update,
        UpdateChoice,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/update",
        "Update a server as it was shown",
        update_server,
        Update,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/rollback/plan",
        "Show the version to go back to",
        plan_server_rollback,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/rollback",
        "Go back to the version shown",
        roll_server_back,
        Rollback,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/uninstall/plan",
        "Show what goes with an installed server",
        plan_server_removal,
        UninstallChoice,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/uninstall",
        "Remove an installed server",
        uninstall_server,
        Uninstallation,
        scope="admin",
    ),
)
