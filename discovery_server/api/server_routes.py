"""Routes of servers: their states, what they list, and whether one answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.engine.doctor.next_steps import next_command
from discovery_engine.engine.json_forms.catalog_forms import (
    details_form,
    explained_tool_form,
    health_form,
    notice_forms,
    offering_form,
    refresh_form,
    requests_form,
    server_form,
    tool_form,
    visible_to_form,
)
from discovery_engine.marketplace.json_forms import prerequisite_form
from discovery_engine.tools.limits import QUERY_BYTES, TAGS, require_names
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.explanations import (
    explain_tool,
    reservations_of,
    reservations_of_server,
    why_hidden,
)
from discovery_engine.view.status import ServerReport
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import ApiRequest, Nothing, Routes

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.view.view import View

routes = Routes()


_Health = Annotated[
    bool, Meta(description="With all that is known of its health, and the next step; for owners.")
]


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
    health: _Health = False


class ServerQuery(Struct, frozen=True, forbid_unknown_fields=True):
    health: _Health = False


class ServerPage(Struct, frozen=True):
    servers: list[JSONObject]
    next_cursor: str | None


class ListedQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    all: Annotated[bool, Meta(description="Also what a rule disables.")] = False


class OfferingsQuery(ListedQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kind: OfferingKind


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
    why: Annotated[
        bool, Meta(description="With what each rule did, also if it is disabled; for its owner.")
    ] = False
    view: Annotated[str | None, Meta(description="With `why`: whether this view hides it.")] = None


class OfferingPage(Struct, frozen=True):
    items: list[JSONObject]
    notices: list[JSONObject]
    next_cursor: str | None


class Refresh(Struct, frozen=True, forbid_unknown_fields=True):
    servers: Annotated[
        tuple[str, ...] | None, Meta(description="Which; every enabled server if null.")
    ] = None


@routes("GET", "/servers", scope="read")
async def servers(request: ApiRequest[ServersQuery]) -> ServerPage:
    """List the configured servers."""
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
    return ServerPage(await _forms(request, page_reports), cursor)


async def _forms(
    request: ApiRequest[ServersQuery] | ApiRequest[ServerQuery], reports: Sequence[ServerReport]
) -> list[JSONObject]:
    if not request.asked.health:
        return [_form(request, report) for report in reports]
    request.require_scope("admin")
    health = await request.owner.health(await request.owner.elsewhere())
    by_name = {report.name: report for report in health}
    return [
        health_form(by_name[report.name], next_command(by_name[report.name]))
        for report in reports
        if report.name in by_name
    ]


def _form(request: ApiRequest[Any], report: ServerReport) -> JSONObject:
    """Describe a server; for the owner with those that it is reserved for, and with details."""
    if not request.engine.view.is_for_owner:
        report = replace(report, detail="")
    if "admin" not in request.scopes:
        return server_form(report)
    settings = request.engine.settings
    reserved = reservations_of_server(settings, settings.by_name[report.name])
    return server_form(report) | visible_to_form(reserved)


async def _reports(request: ApiRequest[ServersQuery]) -> Sequence[ServerReport]:
    """Return the reports that a query asks for, in the order of names."""
    parameters = request.asked
    if not (parameters.query or parameters.source or parameters.installed):
        return request.engine.view.servers()
    request.require_scope("admin")
    entries = await request.owner.servers.list(
        parameters.query, sources=parameters.source, installed_only=parameters.installed
    )
    return sorted((entry.report for entry in entries), key=lambda report: report.name)


@routes("GET", "/servers/{server}", scope="read")
async def server(request: ApiRequest[ServerQuery]) -> JSONObject:
    """Show a server."""
    view = request.engine.view
    report = view.server(request.path["server"])
    settings = view.server_settings(report.name)
    instructions = view.catalog.part(report.name).instructions
    [form] = await _forms(request, [report])
    return form | {"source": settings.source, "instructions": instructions}


@routes("GET", "/servers/{server}/tools", scope="read")
async def server_tools(request: ApiRequest[ListedQuery]) -> ToolPage:
    """List the tools of a server."""
    query, engine = request.asked, request.engine
    if query.all:
        request.require_scope("admin")
    listed = await engine.list_tools(request.path["server"], include_disabled=query.all)
    page_entries, cursor = page(listed.entries, lambda e: (e.tool.name,), query.cursor, query.limit)
    view = engine.view
    tools = [tool_form(entry, view) for entry in page_entries]
    return ToolPage(listed.server, tools, notice_forms(listed.notices), cursor)


@routes("GET", "/servers/{server}/tools/{tool}", scope="read")
async def tool(request: ApiRequest[ToolQuery]) -> JSONObject:
    """Show a tool in full, and why it is enabled or disabled."""
    query, named = request.asked, (request.path["server"], request.path["tool"])
    if query.all or query.why:
        request.require_scope("admin")
        entry = await _find_listed(request, *named)
    else:
        entry = await request.engine.details(*named)
    view = request.engine.view
    form = details_form(entry, view) | {"typical_requests": requests_form(entry, view)}
    return form | {"why": _why(entry, view, query.view)} if query.why else form


def _why(entry: Entry, view: View, hides: str | None) -> JSONObject:
    explanation = explain_tool(view, entry)
    form = explained_tool_form(entry, explanation, view)
    form |= visible_to_form(reservations_of(view, entry, explanation))
    return form | {"view": hides, "hidden": why_hidden(view, entry, hides)} if hides else form


@routes("POST", "/refresh")
async def refresh(request: ApiRequest[Refresh]) -> JSONObject:
    """List the tools of servers again."""
    report = await request.owner.refresh(request.asked.servers)
    return refresh_form(report, request.owner.view)


@routes("GET", "/tools", scope="read")
async def tools(request: ApiRequest[ToolsQuery]) -> AllTools:
    """List the tools of all servers."""
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


@routes("GET", "/servers/{server}/offerings", scope="read")
async def server_offerings(request: ApiRequest[OfferingsQuery]) -> OfferingPage:
    """List the resources, resource templates or prompts of a server."""
    query, engine, named = request.asked, request.engine, request.path["server"]
    if query.all:
        request.require_scope("admin")
    listed = await engine.offerings.list(query.kind, named, include_disabled=query.all)
    page_entries, cursor = page(
        listed.entries, lambda e: (e.offering.identifier,), query.cursor, query.limit
    )
    view = engine.view
    items = [offering_form(entry, view) for entry in page_entries]
    return OfferingPage(items, notice_forms(listed.notices), cursor)


_LINES = 20  # of stderr, which are kept


class StderrQuery(Struct, frozen=True, forbid_unknown_fields=True):
    lines: Annotated[int, Meta(ge=1, le=_LINES, description="The most, the last ones.")] = _LINES


class Stderr(Struct, frozen=True):
    server: str
    lines: Annotated[list[str], Meta(description="Without secrets; the last one last.")]


class WatchResource(Struct, frozen=True, forbid_unknown_fields=True):
    uri: Annotated[str, Meta(min_length=1, max_length=8192, description="That of the resource.")]
    on: Annotated[bool, Meta(description="Whether its updates arrive as events.")] = True


class Watched(Struct, frozen=True):
    server: str
    uri: Annotated[str, Meta(description="As events name it.")]
    on: bool


class WatchedList(Struct, frozen=True):
    resources: list[Watched]


class Prerequisites(Struct, frozen=True):
    programs: list[JSONObject]


class Roots(Struct, frozen=True):
    roots: Annotated[
        list[JSONObject] | None,
        Meta(description="What servers are given; null if their clients are asked."),
    ]
    servers: Annotated[
        dict[str, list[JSONObject]], Meta(description="What servers are given that have their own.")
    ]


@routes("GET", "/servers/{server}/stderr")
async def server_stderr(request: ApiRequest[StderrQuery]) -> Stderr:
    """Show the last lines that a server wrote to stderr."""
    named = request.owner.view.server(request.path["server"]).name
    lines = await request.owner.stderr(named)
    return Stderr(named, list(lines[-request.asked.lines :]))


@routes("POST", "/servers/{server}/resources/subscribe")
async def subscribe_resource(request: ApiRequest[WatchResource]) -> Watched:
    """Have updates of a resource as events, or no more of them."""
    watched, server, body = request.watched, request.path["server"], request.asked
    if body.on:
        target = await watched.add(server, body.uri)
        return Watched(target.server, target.uri, on=True)
    named = request.owner.view.server(server).name
    watched.remove(named, body.uri)
    return Watched(named, body.uri, on=False)


@routes("GET", "/subscriptions")
async def resource_subscriptions(request: ApiRequest[Nothing]) -> WatchedList:
    """List the resources whose updates are asked for."""
    return WatchedList(
        [Watched(resource.server, resource.uri, on=True) for resource in request.watched.list()]
    )


@routes("GET", "/prerequisites")
async def prerequisites(request: ApiRequest[Nothing]) -> Prerequisites:
    """Show which programs that start packages are here."""
    programs = await request.owner.prerequisites()
    return Prerequisites([prerequisite_form(program) for program in programs])


@routes("GET", "/roots")
async def roots(request: ApiRequest[Nothing]) -> Roots:
    """Show the roots that servers are given."""
    shared, own = request.owner.roots()
    return Roots(to_builtins(shared), to_builtins(own))


async def _find_listed(request: ApiRequest[Any], server: str, tool: str) -> Entry:
    """A tool, visible or not; a server that was never listed is listed first.

    Raises:
        NotFoundError: If there is none of that name.
    """
    await request.engine.list_tools(server, include_disabled=True)
    return request.engine.view.find(server, tool)
