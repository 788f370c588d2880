"""Routes for trying servers out: whether one answers, what it writes, updates of its resources."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.prerequisite_form import prerequisite_form
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing

_LINES = 20  # of stderr, which are kept


class StderrQuery(Struct, frozen=True, forbid_unknown_fields=True):
    lines: Annotated[int, Meta(ge=1, le=_LINES, description="The most, the last ones.")] = _LINES


class Stderr(Struct, frozen=True):
    server: str
    lines: Annotated[list[str], Meta(description="Without secrets; the last one last.")]


class Ping(Struct, frozen=True, forbid_unknown_fields=True):
    timeout: Annotated[float, Meta(gt=0, le=60, description="Seconds.")] = 10.0


class WatchResource(Struct, frozen=True, forbid_unknown_fields=True):
    uri: Annotated[str, Meta(min_length=1, max_length=8192, description="That of the resource.")]


class Watched(Struct, frozen=True):
    server: str
    uri: Annotated[str, Meta(description="As events name it.")]


class Unwatched(Struct, frozen=True):
    unsubscribed: bool


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


async def server_stderr(request: ApiRequest[StderrQuery]) -> Stderr:
    named = request.owner.view.server(request.path["server"]).name
    lines = await request.owner.stderr(named)
    return Stderr(named, list(lines[-request.asked.lines :]))


async def ping_server(request: ApiRequest[Ping]) -> JSONObject:
    named = [request.path["server"]]
    [result] = await request.owner.probe(named, max_wait=request.asked.timeout)
    return result.to_json()


async def subscribe_resource(request: ApiRequest[WatchResource]) -> Watched:
    target = await request.watched.add(request.path["server"], request.asked.uri)
    return Watched(target.server, target.uri)


async def unsubscribe_resource(request: ApiRequest[WatchResource]) -> Unwatched:
    named = request.owner.view.server(request.path["server"]).name
    return Unwatched(request.watched.remove(named, request.asked.uri))


async def resource_subscriptions(request: ApiRequest[Nothing]) -> WatchedList:
    return WatchedList(
        [Watched(resource.server, resource.uri) for resource in request.watched.list()]
    )


async def prerequisites(request: ApiRequest[Nothing]) -> Prerequisites:
    programs = await request.owner.prerequisites()
    return Prerequisites([prerequisite_form(program) for program in programs])


async def roots(request: ApiRequest[Nothing]) -> Roots:
    shared, own = request.owner.roots()
    return Roots(to_builtins(shared), to_builtins(own))


_ONE = "/servers/{server}"
ROUTES = (
    ApiRoute(
        "GET",
        f"{_ONE}/stderr",
        "Show the last lines that a server wrote to stderr",
        server_stderr,
        StderrQuery,
        Stderr,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/ping",
        "Try whether a server answers, and how fast",
        ping_server,
        Ping,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/resources/subscribe",
        "Have updates of a resource as events",
        subscribe_resource,
        WatchResource,
        Watched,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/resources/unsubscribe",
        "Have no more updates of a resource",
        unsubscribe_resource,
        WatchResource,
        Unwatched,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        "/subscriptions",
        "List the resources whose updates are asked for",
        resource_subscriptions,
        answer=WatchedList,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        "/prerequisites",
        "Show which programs that start packages are here",
        prerequisites,
        answer=Prerequisites,
        scope="admin",
    ),
    ApiRoute(
        "GET", "/roots", "Show the roots that servers are given", roots, answer=Roots, scope="admin"
    ),
)
