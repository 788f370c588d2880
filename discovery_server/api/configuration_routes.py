"""Routes of the configuration: what is in force, what is wrong with it, and its views."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.config.serialization import serialize_redacted
from discovery_engine.json_forms.error_form import problem_form
from discovery_engine.json_forms.notice_form import notice_forms
from discovery_engine.json_forms.server_form import server_form
from discovery_engine.version import __version__
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing


class Status(Struct, frozen=True):
    version: str
    revision: Annotated[int, Meta(description="That of the catalog; it grows with each change.")]
    server_count: int
    tool_count: int
    enabled_count: int
    notices: list[JSONObject]


class ViewNames(Struct, frozen=True):
    views: list[str]


class ShownView(Struct, frozen=True):
    name: str
    settings: Annotated[JSONObject, Meta(description="Those that it has of its own.")]
    servers: Annotated[list[JSONObject], Meta(description="That it shows, with their tools.")]


class Configuration(Struct, frozen=True):
    path: str | None
    configuration: Annotated[JSONObject, Meta(description="Secrets are redacted.")]
    problems: list[JSONObject]
    warnings: list[JSONObject]


async def status(request: ApiRequest[Nothing]) -> Status:
    view = request.engine.view
    servers = view.servers()
    return Status(
        version=__version__,
        revision=view.catalog.revision,
        server_count=len(servers),
        tool_count=sum(server.tool_count for server in servers),
        enabled_count=sum(server.enabled_count for server in servers),
        notices=notice_forms(view.general_notices()),
    )


async def views(request: ApiRequest[Nothing]) -> ViewNames:
    return ViewNames([view.name for view in request.owner.settings.views])


async def view(request: ApiRequest[Nothing]) -> ShownView:
    name = request.path["view"]
    named_view = request.owner.in_view(name).view
    own = serialize_redacted(request.owner.settings)["views"]
    return ShownView(
        name, own.get(name, {}), [server_form(server) for server in named_view.servers()]
    )


async def configuration(request: ApiRequest[Nothing]) -> Configuration:
    await request.owner.complete_settings()
    settings, view = request.owner.settings, request.owner.view
    broken = [server.problem for server in settings.servers if server.problem]
    rejected = view.rejection.problems if view.rejection else ()
    return Configuration(
        path=settings.path,
        configuration=serialize_redacted(settings),
        problems=[problem_form(problem) for problem in (*rejected, *broken)],
        warnings=[problem_form(warning) for warning in settings.warnings if warning not in broken],
    )


async def reload(request: ApiRequest[Nothing]) -> Configuration:
    await request.owner.reload()
    return await configuration(request)


ROUTES = (
    ApiRoute("GET", "/status", "Show what is known, in numbers", status, answer=Status),
    ApiRoute("GET", "/views", "List the views", views, answer=ViewNames, scope="admin"),
    ApiRoute("GET", "/views/{view}", "Show a view", view, answer=ShownView, scope="admin"),
    ApiRoute(
        "GET",
        "/configuration",
        "Show the configuration in force",
        configuration,
        answer=Configuration,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/reload",
        "Read the configuration again",
        reload,
        answer=Configuration,
        scope="admin",
    ),
)
