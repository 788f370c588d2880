"""The ASGI application of the API: checks parameters, runs handlers, and answers errors as JSON.

    {"code": "TOOL_NOT_FOUND", "message": "…", "hint": "…", …}

Error codes are the same as on the command line. A body must be sent as JSON: pages of other origins
cannot send that without a preflight request, which is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import msgspec
from cachetools import LRUCache
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.version import __version__
from discovery_engine.engine.json_forms.error_form import error_form, with_nearest
from discovery_engine.engine.owner.presets import PresetRefusedError
from discovery_engine.errors import (
    ConfigurationError,
    DisabledError,
    DiscoveryError,
    InputTooLongError,
    InstallBusyError,
    InstallFailedError,
    InstallRefusedError,
    InvalidArgumentsError,
    InvalidInputError,
    InvalidPackageNameError,
    InvalidSecretError,
    MarketplaceEntryNotFoundError,
    MarketplaceSourceNotFoundError,
    MissingInputsError,
    NotFoundError,
    NotInstalledError,
    OfferingDisabledError,
    PackageChangedError,
    PackageManagerError,
    PlanChangedError,
    PromptNotFoundError,
    RateLimitedError,
    RegistryError,
    ResourceNotFoundError,
    SecretStoreError,
    ServerNotFoundError,
    ServerStartingError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
    UnavailableError,
    UpstreamError,
    UpstreamTimeoutError,
    ViewNotFoundError,
    WebhookNotFoundError,
)
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.view.scope import named_scope
from discovery_server.access_token import NO_LIMITS, NO_PRINCIPALS, TokenLimits
from discovery_server.api import (
    call_routes,
    client_routes,
    gateway_routes,
    marketplace_routes,
    owner_routes,
    search_routes,
    server_change_routes,
    server_routes,
    token_routes,
    transient_routes,
)
from discovery_server.api.event_feed import TooManyClientsError
from discovery_server.api.live_calls import (
    CallCancelledError,
    CallIdTakenError,
    LiveCalls,
    TooManyCallsError,
)
from discovery_server.api.route import (
    DESCRIPTION,
    ApiRequest,
    ApiRoute,
    RequestError,
    ScopeMissingError,
    UnexpectedRequestError,
    parameters,
)
from discovery_server.api.watched_resources import TooManyWatchedError, WatchedResources
from discovery_server.http.asgi import API_PATH, EVENTS_PATH

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.websockets import WebSocket

    from discovery_engine.engine import Engine, ScopedEngine
    from discovery_engine.engine.transient_servers import TransientServers
    from discovery_engine.store.call_log.log_entry import Actor
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.api.event_feed import EventFeed, FeedClient
    from discovery_server.http.asgi import ASGIApp

logger = logging.getLogger(__name__)

ROUTES = (
    *gateway_routes.routes.all,
    *server_routes.routes.all,
    *server_change_routes.routes.all,
    *client_routes.routes.all,
    *search_routes.routes.all,
    *token_routes.routes.all,
    *transient_routes.routes.all,
    *call_routes.routes.all,
    *marketplace_routes.routes.all,
    *owner_routes.routes.all,
)
_POLICY, _TRY_AGAIN = 1008, 1013  # codes with which a WebSocket is closed


class _Shared(Struct, frozen=True):
    """The objects that the requests of one gateway share."""

    engines: ShownEngines
    calls: LiveCalls
    watched: WatchedResources
    transient: TransientServers
    tokens: AccessTokens
    watched_in: dict[str, WatchedResources] = field(default_factory=dict)
    """The watched resources of transient servers, by their handles."""

    def watched_of(self, engine: Engine | None, request: Request) -> WatchedResources:
        """Return the watched resources of the transient server that a request names.

        Without an `engine` of such a server, return those of all other servers.
        """
        if engine is None:
            return self.watched
        for ended in [handle for handle in self.watched_in if not self.transient.has(handle)]:
            del self.watched_in[ended]
        named = request.path_params["server"]
        return self.watched_in.setdefault(named, WatchedResources(engine))


def make_api(
    engine: Engine, feed: EventFeed, transient: TransientServers, tokens: AccessTokens
) -> ASGIApp:
    """Create the ASGI application of the API, behind a middleware that checks the token.

    Args:
        engine: The engine that answers.
        feed: The feed of `/events`.
        transient: The transient servers, which are open for a trial.
        tokens: The access tokens of clients.
    """
    description = encode_finite(_described(ROUTES, API_PATH))
    shared = _Shared(
        ShownEngines(engine), LiveCalls(feed), WatchedResources(engine), transient, tokens
    )

    async def describe(_: Request) -> Response:
        return Response(description, media_type="application/json")

    routes = [
        Route(
            f"{API_PATH}{route.path}",
            partial(_answer, shared, route),
            methods=[route.method],
            name=route.name,
        )
        for route in ROUTES
    ]
    routes.append(Route(DESCRIPTION, describe, methods=["GET"]))
    events = WebSocketRoute(EVENTS_PATH, partial(_follow_events, feed))
    handlers = {404: _not_found, 405: _not_allowed}
    return Starlette(routes=[*routes, events], exception_handlers=handlers)


async def _answer(shared: _Shared, route: ApiRoute, request: Request) -> Response:
    try:
        with _transient_engine(shared, request) as engine:
            answer = await route.handler(await _checked(shared, route, request, engine))
    except DiscoveryError as error:
        return _refusal(error, request, to_owner=_is_for_owner(shared, request))
    except Exception:
        logger.exception("%s %s failed", route.method, route.path)
        return _refusal(UnexpectedRequestError(), request)
    return _json(200, msgspec.to_builtins(answer))


@contextmanager
def _transient_engine(shared: _Shared, request: Request) -> Iterator[Engine | None]:
    """Yield the engine of the transient server that an owner's request names; None without one."""
    named = request.path_params.get("server", "")
    if "admin" not in request.scope.get("scopes", ()) or not shared.transient.has(named):
        yield None
        return
    with shared.transient.used(named) as engine:
        yield engine


async def _checked(
    shared: _Shared, route: ApiRoute, request: Request, engine: Engine | None
) -> ApiRequest[Any]:
    """Return the request with its checked parameters; `engine` is that of a transient server.

    Raises:
        ScopeMissingError: If the token lacks the scope of the route.
        RequestError: If the parameters are invalid.
        ViewNotFoundError: If the view of the token no longer exists.
    """
    scopes = request.scope.get("scopes", frozenset())
    if route.scope not in scopes:
        raise ScopeMissingError(route.scope)
    limits = request.scope.get("limits", NO_LIMITS)
    principals = request.scope.get("principals", NO_PRINCIPALS)
    scoped_engine = engine or shared.engines.of(request.scope.get("view"), limits, principals)
    return ApiRequest(
        engine=scoped_engine,
        owner=engine or shared.engines.whole,
        path=request.path_params,
        asked=await parameters(request, route),
        scopes=scopes,
        by=_actor(request),
        user=request.scope.get("user", ""),
        calls=shared.calls,
        watched=shared.watched_of(engine, request),
        transient=shared.transient,
        tokens=shared.tokens,
    )


def _actor(request: Request) -> Actor:
    """Return `program` for a request with a token, `person` for the page's session cookie."""
    return "program" if "authorization" in request.headers else "person"


def _is_for_owner(shared: _Shared, request: Request) -> bool:
    """Return whether an answer may contain details for the owner alone."""
    principals = request.scope.get("principals", NO_PRINCIPALS)
    return principals is None or not shared.engines.whole.settings.reserves


def _refusal(error: DiscoveryError, request: Request, *, to_owner: bool = True) -> Response:
    has_admin = "admin" in request.scope.get("scopes", ())
    by = _actor(request)
    return _json(*_error_answer(error, by=by, has_admin=has_admin, to_owner=to_owner))


async def _not_found(request: Request, _: Exception) -> Response:
    text = f"there is nothing at {request.url.path}"
    hint = f"GET {DESCRIPTION} names the routes"
    return _refusal(RequestError(404, text, hint=hint), request)


async def _not_allowed(request: Request, error: Exception) -> Response:
    text = f"{request.method} is not possible at {request.url.path}"
    headers = getattr(error, "headers", None) or {}
    hint = f"use {headers.get('Allow', 'GET')}"
    answer = _refusal(RequestError(405, text, hint=hint), request)
    answer.headers.update(headers)
    return answer


def _json(status: int, form: JSONObject) -> Response:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(encode_finite(form), status, headers, media_type="application/json")


class _FeedMessage(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="refresh"
):
    """The only message of a client, which requests the state again."""


async def _follow_events(feed: EventFeed, socket: WebSocket) -> None:
    """Send events to a client until it disconnects or is too slow."""
    if "admin" not in socket.scope.get("scopes", ()):  # events name servers that a view hides
        await socket.close(_POLICY)
        return
    stream, after = socket.query_params.get("stream", ""), _number(socket.query_params.get("after"))
    await socket.accept()
    try:
        async with feed.client(stream, after) as client, open_task_group() as tasks:
            tasks.start_soon(_read, socket, client)
            while (frame := await client.next()) is not None:
                await socket.send_text(frame.decode())
            tasks.cancel_scope.cancel()
        await socket.close(_TRY_AGAIN, "too slow: connect again")
    except TooManyClientsError as error:
        await socket.close(_TRY_AGAIN, error.message)
    except WebSocketDisconnect:
        pass


async def _read(socket: WebSocket, client: FeedClient) -> None:
    """Answer the messages of a client, until its end raises `WebSocketDisconnect`."""
    while True:
        text = await socket.receive_text()
        try:
            msgspec.json.decode(text, type=_FeedMessage)
        except (ValueError, RecursionError):
            message = 'send {"type": "refresh"}, or nothing'
            client.deliver(encode_finite({"type": "error", "message": message}))
        else:
            client.refresh()


def _number(text: str | None) -> int:
    with suppress(ValueError, TypeError):
        return max(0, int(text or 0))
    return 0


# The number of engines; each holds a byte for every tool of servers that it shows in part.
_MAX_CACHED_ENGINES = 64
_Key: TypeAlias = "tuple[str | None, TokenLimits, frozenset[str] | None]"


class ShownEngines:
    """The scoped engines of one engine, cached: each evaluates a server only when it changes."""

    def __init__(self, engine: Engine) -> None:
        self.whole = engine
        self._engines: LRUCache[_Key, ScopedEngine] = LRUCache(_MAX_CACHED_ENGINES)

    def of(
        self, view: str | None, limits: TokenLimits, principals: frozenset[str] | None
    ) -> ScopedEngine:
        """Return the engine limited to what a token shows.

        Args:
            view: The only view; None for all.
            limits: The servers and tools that the token is limited to.
            principals: The teams and the user that the token stands for; None for the owner.

        Raises:
            ViewNotFoundError: If there is no such view; the error suggests the nearest names.
        """
        if view is not None:
            named_scope(self.whole.settings, view)
        if not self.whole.settings.reserves:  # nothing is reserved
            principals = None
        if view is None and limits == NO_LIMITS and principals is None:
            return self.whole
        key = view, limits, principals
        if key not in self._engines:
            self._engines[key] = self._made(*key)
        return self._engines[key]

    def _made(
        self, view: str | None, limits: TokenLimits, principals: frozenset[str] | None
    ) -> ScopedEngine:
        engine: ScopedEngine = self.whole
        if principals is not None:
            engine = engine.visible_to(*principals)
        if view is not None:
            engine = engine.in_view(view)
        return engine if limits == NO_LIMITS else engine.within(limits.scope())


# The OpenAPI description of the API, made from its routes and the types of their parameters.

_VERSION = "3.1.0"
_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_TEMPLATE = "#/components/schemas/{name}"
_MEDIA_TYPE = "application/json"
_ERROR: JSONObject = {
    "type": "object",
    "required": ["code", "message", "hint"],
    "properties": {
        "code": {"type": "string", "description": "Stable; those of the command line."},
        "message": {"type": "string", "description": "What happened."},
        "hint": {"type": "string", "description": "The next step; may be empty."},
    },
}


def _described(routes: Iterable[ApiRoute], base: str) -> JSONObject:
    """Return the OpenAPI document of routes below the path `base`."""
    routes = tuple(routes)
    kinds = {kind for route in routes for kind in (route.asked, route.answer) if kind}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_TEMPLATE)
    paths: dict[str, dict[str, JSONObject]] = {}
    for route in routes:
        path = route.path.replace(":path}", "}")
        paths.setdefault(f"{base}{path}", {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": _VERSION,
        "info": {"title": "discovery", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: ApiRoute, schemas: dict[str, Any]) -> JSONObject:
    answer = (
        {"$ref": _TEMPLATE.format(name=route.answer.__name__)}
        if route.answer
        else {"type": "object"}
    )
    operation: JSONObject = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"Needs a token with the scope `{route.scope}`.",
        "responses": {
            "200": {"description": "Done", "content": {_MEDIA_TYPE: {"schema": answer}}},
            "default": {
                "description": "It was refused, or failed",
                "content": {_MEDIA_TYPE: {"schema": {"$ref": _TEMPLATE.format(name="Error")}}},
            },
        },
    }
    parameters: list[JSONObject] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(route.path)
    ]
    if route.has_body:
        schema = {"$ref": _TEMPLATE.format(name=route.asked.__name__)}
        required = bool(schemas[route.asked.__name__].get("required"))
        body = {"required": required, "content": {_MEDIA_TYPE: {"schema": schema}}}
        operation["requestBody"] = body
    else:
        query_schema = schemas[route.asked.__name__]
        required_names = query_schema.get("required", ())
        parameters += [
            {
                "name": name,
                "in": "query",
                "required": name in required_names,
                "description": schema.get("description", ""),
                "schema": schema,
            }
            for name, schema in query_schema.get("properties", {}).items()
        ]
    if parameters:
        operation["parameters"] = parameters
    return operation


# {"code": "TOOL_NOT_FOUND", "message": "…", "hint": "GET /api/servers/git/tools names …", …}

_STATUSES: dict[type[DiscoveryError], int] = {
    CallCancelledError: 409,
    CallIdTakenError: 409,
    DiscoveryError: 500,
    ConfigurationError: 409,
    DisabledError: 409,
    InputTooLongError: 413,
    InstallBusyError: 409,
    InstallFailedError: 502,
    InstallRefusedError: 409,
    InvalidArgumentsError: 422,
    InvalidInputError: 422,
    InvalidPackageNameError: 422,
    InvalidSecretError: 422,
    MissingInputsError: 422,
    NotFoundError: 404,
    PackageChangedError: 409,
    PackageManagerError: 502,
    PlanChangedError: 409,
    PresetRefusedError: 422,
    RateLimitedError: 429,
    RegistryError: 503,
    SecretStoreError: 503,
    ServerStartingError: 503,
    TooManyCallsError: 429,
    TooManyWatchedError: 429,
    UnavailableError: 503,
    UpstreamError: 502,
    UpstreamTimeoutError: 504,
}


_ROUTES_TO_NAMES: dict[type[NotFoundError], str] = {
    MarketplaceEntryNotFoundError: f"GET {API_PATH}/marketplace?query=… finds names",
    MarketplaceSourceNotFoundError: f"GET {API_PATH}/marketplace/sources names them all",
    NotInstalledError: f"GET {API_PATH}/marketplace/updates names those that were installed",
    ServerNotFoundError: f"GET {API_PATH}/servers names them all",
    ToolNotFoundError: f"GET {API_PATH}/search?query=… finds tools by words",
    ViewNotFoundError: f"GET {API_PATH}/views names them",
    WebhookNotFoundError: f"GET {API_PATH}/webhooks names them",
}


def _error_answer(
    error: DiscoveryError, *, by: Actor, has_admin: bool, to_owner: bool
) -> tuple[int, JSONObject]:
    """Return the status and the body.

    Args:
        error: The error.
        by: The reader of the hint: a program gets a route, a person on the page a command.
        has_admin: Whether the token has the scope `admin`.
        to_owner: Whether the answer may contain details for the owner alone.
    """
    form = error_form(error)
    if not to_owner:
        form["detail"] = ""
    if isinstance(error, RequestError):
        return error.status, form | error.facts
    if by == "program" and (route := _next_route(error, is_owner=has_admin)):
        form["hint"] = route
    kinds = (kind for kind in type(error).__mro__ if kind in _STATUSES)
    return _STATUSES[next(kinds)], form


def _next_route(error: DiscoveryError, *, is_owner: bool) -> str | None:
    """Return the request to send next; None if no route helps more than the hint of the error."""
    match error:
        case NotFoundError():
            names = _route_to_names(error)
            return names and with_nearest(error, names)
        case DisabledError():
            return _route_to_reason(error) if is_owner else error.hint
    return None


def _route_to_reason(error: DisabledError) -> str | None:
    match error:
        case ToolWithheldError(server=str(server)):
            return f"GET {_path('review', server)} shows its definition now"
        case OfferingDisabledError(server=str(server)) if error.command:
            return f"GET {_path('review', server)} shows its definition now"
        case ToolDisabledError():
            why = f"{_path('servers', error.server, 'tools', error.tool)}?why=true"
            return f"GET {why} shows what each rule did"
    return None


def _route_to_names(error: NotFoundError) -> str | None:
    match error:
        case ToolNotFoundError(server=str(server)):
            return f"GET {_path('servers', server, 'tools')} names its tools"
        case ResourceNotFoundError(server=str(server)):
            return f"GET {_path('servers', server, 'offerings')}?kind=resource names them"
        case PromptNotFoundError(server=str(server)):
            return f"GET {_path('servers', server, 'offerings')}?kind=prompt names them"
    return _ROUTES_TO_NAMES.get(type(error))


def _path(*parts: str) -> str:
    return "/".join((API_PATH, *(quote(part, safe="") for part in parts)))
