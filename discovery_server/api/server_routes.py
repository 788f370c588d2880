"""Routes of servers: their states, and what they list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.doctor.next_steps import next_command
from discovery_engine.json_forms.notice_form import notice_forms
from discovery_engine.json_forms.offering_form import offering_form
from discovery_engine.json_forms.server_form import health_form, refresh_form, server_form
from discovery_engine.json_forms.tool_form import details_form, requests_form, tool_form
from discovery_engine.json_forms.verdict_form import visible_to_form
from discovery_engine.limits import QUERY_BYTES, TAGS, require_names
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.reservations import reservations_of_server
from discovery_engine.view.status import ServerReport
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing, find_listed


class ServersQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    state: Annotated[str | None, Meta(description="Only servers in this state.")] = None
    tag: Annotated[str | None, Meta(description="Only servers with this tag.")] = None
    query: Annotated[
        str, Meta(max_length=QUERY_BYTES, description="Only servers with words of it; for owners.")
    ] = ""
    source: Annotated[
        tuple[str, ...], Meta(description="Only servers that stand in one of these; for owners.")
    ] = ()
    installed: Annotated[
        bool, Meta(description="Only servers that run a package of a marketplace; for owners.")
    ] = False


class ServerPage(Struct, frozen=True):
    servers: list[JSONObject]
    next_cursor: str | None


class ListedQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    all: Annotated[bool, Meta(description="Also what a rule disables.")] = False


class ToolsQuery(ListedQuery, frozen=True, forbid_unknown_fields=True):
    tag: Annotated[tuple[str, ...], Meta(description="Only tools with all of these tags.")] = ()
    any_tag: Annotated[bool, Meta(description="One of the tags is enough.")] = False


class ToolPage(Struct, frozen=True):
    server: str
    tools: list[JSONObject]
    notices: list[JSONObject]
    next_cursor: str | None


class AllTools(Struct, frozen=True):
    tools: Annotated[list[JSONObject], Meta(description="Of servers that were listed.")]
    next_cursor: str | None


class ToolQuery(Struct, frozen=True, forbid_unknown_fields=True):
    all: Annotated[bool, Meta(description="Also if it is disabled; for its owner alone.")] = False


class OfferingPage(Struct, frozen=True):
    items: list[JSONObject]
    notices: list[JSONObject]
    next_cursor: str | None


class Refresh(Struct, frozen=True, forbid_unknown_fields=True):
    servers: Annotated[
        tuple[str, ...] | None, Meta(description="Which; every enabled server if null.")
    ] = None


async def servers(request: ApiRequest[ServersQuery]) -> ServerPage:
    parameters = request.asked
    reports = [
        server
        for server in await _reports(request)
        if parameters.state in (None, str(server.state))
        and (not parameters.tag or parameters.tag in server.tags)
    ]
    page_reports, cursor = page(
        reports, lambda report: (report.name,), parameters.cursor, parameters.limit
    )
    return ServerPage([_form(request, report) for report in page_reports], cursor)


def _form(request: ApiRequest[Any], report: ServerReport) -> JSONObject:
    """For the owner with the teams and users that it is reserved for, and with details."""
    if not request.engine.view.is_for_owner:
        report = replace(report, detail="")
    if "admin" not in request.scopes:
        return server_form(report)
    settings = request.engine.settings
    reserved = reservations_of_server(settings, settings.by_name[report.name])
    return server_form(report) | visible_to_form(reserved)


async def _reports(request: ApiRequest[ServersQuery]) -> Sequence[ServerReport]:
    """In the order of names."""
    parameters = request.asked
    if not (parameters.query or parameters.source or parameters.installed):
        return request.engine.view.servers()
    request.require_scope("admin")
    entries = await request.owner.servers.list(
        parameters.query, sources=parameters.source, installed_only=parameters.installed
    )
    return sorted((entry.report for entry in entries), key=lambda report: report.name)


async def server(request: ApiRequest[Nothing]) -> JSONObject:
    view = request.engine.view
    report = view.server(request.path["server"])
    settings = view.server_settings(report.name)
    instructions = view.catalog.part(report.name).instructions
    return _form(request, report) | {"source": settings.source, "instructions": instructions}


async def server_health(request: ApiRequest[Nothing]) -> JSONObject:
    named = request.engine.view.server(request.path["server"]).name
    report = next(report for report in await _health(request) if report.name == named)
    return health_form(report, next_command(report))


async def _health(request: ApiRequest[Any]) -> Sequence[ServerReport]:
    return await request.owner.health(await request.owner.elsewhere())


async def health(request: ApiRequest[PageQuery]) -> ServerPage:
    query, reports = request.asked, await _health(request)
    page_reports, cursor = page(reports, lambda report: (report.name,), query.cursor, query.limit)
    return ServerPage(
        [health_form(report, next_command(report)) for report in page_reports], cursor
    )


async def server_tools(request: ApiRequest[ListedQuery]) -> ToolPage:
    query, engine = request.asked, request.engine
    if query.all:
        request.require_scope("admin")
    listed = await engine.list_tools(request.path["server"], include_disabled=query.all)
    page_entries, cursor = page(listed.entries, lambda e: (e.tool.name,), query.cursor, query.limit)
    view = engine.view
    tools = [tool_form(entry, view) for entry in page_entries]
    return ToolPage(listed.server, tools, notice_forms(listed.notices), cursor)


async def tool(request: ApiRequest[ToolQuery]) -> JSONObject:
    named = request.path["server"], request.path["tool"]
    if request.asked.all:
        request.require_scope("admin")
        entry = await find_listed(request, *named)
    else:
        entry = await request.engine.details(*named)
    view = request.engine.view
    return details_form(entry, view) | {"typical_requests": requests_form(entry, view)}


async def server_resources(request: ApiRequest[ListedQuery]) -> OfferingPage:
    return await _offerings(request, OfferingKind.RESOURCE)


async def server_resource_templates(request: ApiRequest[ListedQuery]) -> OfferingPage:
    return await _offerings(request, OfferingKind.TEMPLATE)


async def server_prompts(request: ApiRequest[ListedQuery]) -> OfferingPage:
    return await _offerings(request, OfferingKind.PROMPT)


async def refresh(request: ApiRequest[Refresh]) -> JSONObject:
    report = await request.owner.refresh(request.asked.servers)
    return refresh_form(report, request.owner.view)


async def restart_server(request: ApiRequest[Nothing]) -> JSONObject:
    report = await request.owner.restart(request.path["server"])
    return refresh_form(report, request.owner.view)


async def tools(request: ApiRequest[ToolsQuery]) -> AllTools:
    query, view = request.asked, request.engine.view
    if query.all:
        request.require_scope("admin")
    require_names("tag", query.tag, most=TAGS)
    listing = view.all_tools(tags=query.tag, any_tag=query.any_tag, include_disabled=query.all)
    page_entries, cursor = page(
        listing.entries,
        lambda entry: (entry.tool.server, entry.tool.name),
        query.cursor,
        query.limit,
    )
    return AllTools([tool_form(entry, view) for entry in page_entries], cursor)


async def _offerings(request: ApiRequest[ListedQuery], kind: OfferingKind) -> OfferingPage:
    query, engine, named = request.asked, request.engine, request.path["server"]
    if query.all:
        request.require_scope("admin")
    listed = await engine.offerings.list(kind, named, include_disabled=query.all)
    page_entries, cursor = page(
        listed.entries, lambda e: (e.offering.identifier,), query.cursor, query.limit
    )
    view = engine.view
    items = [offering_form(entry, view) for entry in page_entries]
    return OfferingPage(items, notice_forms(listed.notices), cursor)


_ONE = "/servers/{server}"
ROUTES = (
    ApiRoute("GET", "/servers", "List the configured servers", servers, ServersQuery, ServerPage),
    ApiRoute(
        "GET",
        "/health",
        "Show the health of all servers",
        health,
        PageQuery,
        ServerPage,
        scope="admin",
    ),
    ApiRoute("GET", _ONE, "Show a server", server),
    ApiRoute("GET", f"{_ONE}/health", "Show the health of a server", server_health, scope="admin"),
    ApiRoute(
        "GET", f"{_ONE}/tools", "List the tools of a server", server_tools, ListedQuery, ToolPage
    ),
    ApiRoute("GET", f"{_ONE}/tools/{{tool}}", "Show a tool in full", tool, ToolQuery),
    ApiRoute(
        "GET",
        f"{_ONE}/resources",
        "List its resources",
        server_resources,
        ListedQuery,
        OfferingPage,
    ),
    ApiRoute(
        "GET",
        f"{_ONE}/resource-templates",
        "List its resource templates",
        server_resource_templates,
        ListedQuery,
        OfferingPage,
    ),
    ApiRoute(
        "GET", f"{_ONE}/prompts", "List its prompts", server_prompts, ListedQuery, OfferingPage
    ),
    ApiRoute("GET", "/tools", "List the tools of all servers", tools, ToolsQuery, AllTools),
    ApiRoute(
        "POST",
        f"{_ONE}/restart",
        "End the sessions of a server, and list its tools anew",
        restart_server,
        scope="admin",
    ),
    ApiRoute(
        "POST", "/refresh", "List the tools of servers again", refresh, Refresh, scope="admin"
    ),
)
