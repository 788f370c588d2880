"""Routes of the marketplace: what others publish, and what it would run."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import DiscoveryError, MarketplaceCursorError
from discovery_engine.json_forms.marketplace_form import (
    entry_details_form,
    page_form,
    source_form,
    sync_form,
)
from discovery_engine.limits import QUERY_BYTES
from discovery_server.api.paging import InvalidCursorError
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing

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


async def browse_marketplace(request: ApiRequest[MarketplaceQuery]) -> JSONObject:
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


async def marketplace_entry(request: ApiRequest[EntryQuery]) -> JSONObject:
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


async def marketplace_sources(request: ApiRequest[Nothing]) -> Sources:
    return Sources([source_form(source) for source in await request.owner.marketplace.sources()])


async def synchronize_marketplace(request: ApiRequest[Synchronization]) -> Sources:
    reports = await request.owner.marketplace.sync(request.asked.sources, force=request.asked.force)
    return Sources([sync_form(report) for report in reports])


_PATH = "/marketplace"
ROUTES = (
    ApiRoute(
        "GET",
        _PATH,
        "Find servers that others publish",
        browse_marketplace,
        MarketplaceQuery,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        f"{_PATH}/entry",
        "Show an entry, and what it would run",
        marketplace_entry,
        EntryQuery,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        f"{_PATH}/sources",
        "List the sources",
        marketplace_sources,
        answer=Sources,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_PATH}/sync",
        "Bring copies of the sources up to date",
        synchronize_marketplace,
        Synchronization,
        Sources,
        scope="admin",
    ),
)
