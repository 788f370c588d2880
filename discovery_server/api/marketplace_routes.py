"""Routes of the marketplace: what others publish, and what is installed of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from discovery_engine._util.json import JSONObject
from discovery_engine.engine.owner.server_plans import Target
from discovery_engine.errors import DiscoveryError, MarketplaceCursorError
from discovery_engine.marketplace.json_forms import (
    entry_details_form,
    page_form,
    rollback_plan_form,
    source_form,
    sync_form,
    update_form,
    update_plan_form,
)
from discovery_engine.store.install_records import Grants
from discovery_engine.tools.limits import QUERY_BYTES
from discovery_server.api.paging import InvalidCursorError
from discovery_server.api.route import (
    ApiRequest,
    Confirmation,
    Name,
    Nothing,
    Routes,
    SecretValues,
    Value,
    Values,
    to_confirm,
)

routes = Routes()


_MAX_MARKETPLACE_RESULTS = 100  # entries of a page


class MarketplaceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=QUERY_BYTES)] = ""
    source: tuple[str, ...] = ()
    limit: Annotated[int, Meta(ge=1, le=_MAX_MARKETPLACE_RESULTS)] = 20
    cursor: Annotated[str, Meta(max_length=2048)] | None = None
    offline: Annotated[bool, Meta(description="From the copies alone.")] = False


class EntryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=500, description="As a search gives it.")]
    version: str = ""
    source: tuple[str, ...] = ()
    offline: bool = False


class Synchronization(Struct, frozen=True, forbid_unknown_fields=True):
    sources: Annotated[tuple[str, ...], Meta(description="Which; all without one.")] = ()
    force: Annotated[bool, Meta(description="All of each, not what has changed.")] = False


class Sources(Struct, frozen=True):
    sources: list[JSONObject]


@routes("GET", "/marketplace")
async def browse_marketplace(request: ApiRequest[MarketplaceQuery]) -> JSONObject:
    """Find servers that others publish."""
    parameters = request.asked
    try:
        hits = await request.owner.marketplace.search(
            parameters.query,
            limit=parameters.limit,
            cursor=parameters.cursor,
            sources=parameters.source,
            offline=parameters.offline,
        )
    except MarketplaceCursorError as error:
        raise InvalidCursorError from error
    return page_form(hits)


@routes("GET", "/marketplace/entry")
async def marketplace_entry(request: ApiRequest[EntryQuery]) -> JSONObject:
    """Show an entry, and what it would run."""
    query, owner = request.asked, request.owner
    details = await owner.marketplace.show(
        query.name, version=query.version, sources=query.source, offline=query.offline
    )
    if query.offline or not (details.entry.packages or details.entry.remotes):
        return entry_details_form(details, None)
    try:
        return entry_details_form(details, await owner.installer.preview(details.entry))
    except DiscoveryError as error:
        return entry_details_form(details, error)


@routes("GET", "/marketplace/sources")
async def marketplace_sources(request: ApiRequest[Nothing]) -> Sources:
    """List the sources."""
    return Sources([source_form(source) for source in await request.owner.marketplace.sources()])


@routes("POST", "/marketplace/sync")
async def synchronize_marketplace(request: ApiRequest[Synchronization]) -> Sources:
    """Bring copies of the sources up to date."""
    reports = await request.owner.marketplace.sync(request.asked.sources, force=request.asked.force)
    return Sources([sync_form(report) for report in reports])


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
    digest: Confirmation = None


class Update(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    values: Values = field(default_factory=dict)
    secrets: SecretValues = field(default_factory=dict)
    digest: Confirmation = None


class Rollback(Struct, frozen=True, forbid_unknown_fields=True):
    digest: Confirmation = None


class Updates(Struct, frozen=True):
    servers: list[JSONObject]


@routes("POST", "/install")
async def install_server(request: ApiRequest[InstallChoice]) -> JSONObject:
    """Install a server as it was shown."""
    choice, installer = request.asked, request.owner.installer
    plan = await installer.plan_install(
        choice.name,
        server=choice.server,
        offer=choice.offer,
        version=choice.version,
        values=choice.values,
        secrets=choice.secrets,
        grants=Grants(network=choice.network, read=choice.read, write=choice.write),
        to=choice.to,
    )
    form = plan.to_json()
    if to_show := to_confirm(form, choice.digest, f"installing {plan.name!r}"):
        return to_show
    change = await installer.install(plan)
    return {**form, "name": change.name, "installed": True, "problem": change.problem or None}


@routes("GET", "/marketplace/updates")
async def list_updates(request: ApiRequest[Nothing]) -> Updates:
    """Show what updates of installed servers would change."""
    return Updates([update_form(update) for update in await request.owner.installer.plan_updates()])


@routes("POST", "/servers/{server}/update")
async def update_server(request: ApiRequest[Update]) -> JSONObject:
    """Update a server as it was shown."""
    body, installer = request.asked, request.owner.installer
    named = request.path["server"]
    plan = await installer.plan_update(named, values=body.values, secrets=body.secrets)
    if to_show := to_confirm(update_plan_form(plan), body.digest, f"updating {plan.name!r}"):
        return to_show
    await installer.update(plan)
    return update_form(plan, is_done=True)


@routes("POST", "/servers/{server}/rollback")
async def roll_server_back(request: ApiRequest[Rollback]) -> JSONObject:
    """Go back to the version shown."""
    installer, named = request.owner.installer, request.path["server"]
    record = await installer.installed(named)
    subject = f"going back with {record.name!r}"
    if to_show := to_confirm(rollback_plan_form(record), request.asked.digest, subject):
        return to_show
    change = await installer.rollback(named)
    return {"name": change.name, "version": change.pin.version}
