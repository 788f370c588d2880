"""Serves the routes: parameters are checked before a handler runs, and every error is JSON.

    {"code": "TOOL_NOT_FOUND", "message": "…", "hint": "…", …}

The codes are those of the command line. A body must be sent as JSON: a form of another page cannot
send that without asking first, which is refused.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

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
    MissingInputsError,
    NotFoundError,
    PackageChangedError,
    PackageManagerError,
    PlanChangedError,
    RateLimitedError,
    RegistryError,
    SecretStoreError,
    ServerStartingError,
    UnavailableError,
    UpstreamError,
    UpstreamTimeoutError,
)
from discovery_engine.json_forms.error_form import error_form
from discovery_engine.owner.presets import PresetRefusedError
from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.api import (
    cache_routes,
    call_routes,
    configuration_routes,
    eval_routes,
    fleet_routes,
    install_routes,
    log_routes,
    marketplace_routes,
    openapi,
    owner_routes,
    preset_routes,
    question_routes,
    review_routes,
    rule_routes,
    search_routes,
    server_change_routes,
    server_routes,
    tester_routes,
    token_routes,
    transient_routes,
    webhook_routes,
)
from discovery_server.api.event_socket import follow_events
from discovery_server.api.live_calls import (
    CallCancelledError,
    CallIdTakenError,
    LiveCalls,
    TooManyCallsError,
)
from discovery_server.api.next_routes import next_route
from discovery_server.api.request_mistakes import mistake
from discovery_server.api.route import (
    ApiRequest,
    ApiRoute,
    RequestError,
    ScopeMissingError,
    UnexpectedRequestError,
)
from discovery_server.api.watched_resources import TooManyWatchedError, WatchedResources
from discovery_server.http.early_refusals import API_PATH as PATH
from discovery_server.http.early_refusals import EVENTS_PATH
from discovery_server.shown_engines import ShownEngines
from discovery_server.token_limits import NO_LIMITS, NO_PRINCIPALS

if TYPE_CHECKING:
    from starlette.requests import Request

    from discovery_engine._util.json import JSONObject
    from discovery_engine.call_log.log_entry import Actor
    from discovery_engine.engine import Engine
    from discovery_engine.engine.transient_servers import TransientServers
    from discovery_server.api.event_feed import EventFeed
    from discovery_server.http.asgi import ASGIApp

logger = logging.getLogger(__name__)

ROUTES = (
    *configuration_routes.ROUTES,
    *server_routes.ROUTES,
    *server_change_routes.ROUTES,
    *tester_routes.ROUTES,
    *cache_routes.ROUTES,
    *search_routes.ROUTES,
    *token_routes.ROUTES,
    *transient_routes.ROUTES,
    *rule_routes.ROUTES,
    *eval_routes.ROUTES,
    *call_routes.ROUTES,
    *preset_routes.ROUTES,
    *question_routes.ROUTES,
    *log_routes.ROUTES,
    *marketplace_routes.ROUTES,
    *install_routes.ROUTES,
    *owner_routes.ROUTES,
    *fleet_routes.ROUTES,
    *webhook_routes.ROUTES,
    *review_routes.ROUTES,
)

_LONGEST_BODY = 128 << 10  # bytes
_DEEPEST = 64  # lists and maps; deeper than arguments of real tools
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


class _Shared(Struct, frozen=True):
    """The objects that the requests of one gateway share."""

    engines: ShownEngines
    calls: LiveCalls
    watched: WatchedResources
    transient: TransientServers
    watched_in: dict[str, WatchedResources] = field(default_factory=dict)
    """In transient servers, by their handles."""

    def watched_of(self, engine: Engine | None, request: Request) -> WatchedResources:
        """The watched resources of the transient server that a request names, or of all others."""
        if engine is None:
            return self.watched
        for ended in [handle for handle in self.watched_in if not self.transient.has(handle)]:
            del self.watched_in[ended]
        named = request.path_params["server"]
        return self.watched_in.setdefault(named, WatchedResources(engine))


def make_api(engine: Engine, feed: EventFeed, transient: TransientServers) -> ASGIApp:
    """The ASGI application of the API; the middleware before it has checked the token.

    Args:
        engine: What answers.
        feed: What `/events` sends.
        transient: The servers for a trial.
    """
    description = encode_finite(openapi.describe(ROUTES, PATH))
    shared = _Shared(ShownEngines(engine), LiveCalls(feed), WatchedResources(engine), transient)

    async def describe(_: Request) -> Response:
        return Response(description, media_type="application/json")

    routes = [
        Route(
            f"{PATH}{route.path}",
            partial(_answer, shared, route),
            methods=[route.method],
            name=route.name,
        )
        for route in ROUTES
    ]
    routes.append(Route(f"{PATH}/openapi.json", describe, methods=["GET"]))
    events = WebSocketRoute(EVENTS_PATH, partial(follow_events, feed))
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
    return _json(route.status, msgspec.to_builtins(answer))


@contextmanager
def _transient_engine(shared: _Shared, request: Request) -> Iterator[Engine | None]:
    """That of the transient server which an owner's request names; None if it names none."""
    named = request.path_params.get("server", "")
    if "admin" not in request.scope.get("scopes", ()) or not shared.transient.has(named):
        yield None
        return
    with shared.transient.used(named) as engine:
        yield engine


async def _checked(
    shared: _Shared, route: ApiRoute, request: Request, engine: Engine | None
) -> ApiRequest[Any]:
    """The request with its parameters; `engine` answers if it is one of a transient server.

    Raises:
        RequestError: If its token does not allow it, or it is not as described.
    """
    scopes = request.scope.get("scopes", frozenset())
    if route.scope not in scopes:
        raise ScopeMissingError(route.scope)
    limits = request.scope.get("limits", NO_LIMITS)
    principals = request.scope.get("principals", NO_PRINCIPALS)
    scoped_engine = engine or shared.engines.of(request.scope.get("view"), limits, principals)
    parameters = await _asked(request, route)
    return ApiRequest(
        engine=scoped_engine,
        owner=engine or shared.engines.whole,
        path=request.path_params,
        asked=parameters,
        scopes=scopes,
        by=_actor(request),
        user=request.scope.get("user", ""),
        calls=shared.calls,
        watched=shared.watched_of(engine, request),
        transient=shared.transient,
    )


def _actor(request: Request) -> Actor:
    """A person on the page, whose session is a cookie, or a program."""
    return "program" if "authorization" in request.headers else "person"


async def _asked(request: Request, route: ApiRoute) -> Struct:
    if route.has_body:
        values = await _body(request)
        is_strict = True
    else:
        values, is_strict = _query(request, route.asked), False
    try:
        return msgspec.convert(values, route.asked, strict=is_strict)
    except msgspec.ValidationError as error:
        raise mistake(route, values, error, f"{PATH}/openapi.json") from None


async def _body(request: Request) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > _LONGEST_BODY:
                text = f"a body may have at most {_LONGEST_BODY:,} bytes"
                raise RequestError(413, text, hint="send less, or in several requests")
            parts.append(part)
    except ClientDisconnect:  # no client is left to read the answer
        raise RequestError(400, "the body is incomplete", hint="send it again") from None
    if not size:
        return {}
    if kind != "application/json":
        text = f"the body was sent as {kind!r}" if kind else "the kind of the body is not named"
        raise RequestError(415, text, hint="send JSON, with `Content-Type: application/json`")
    try:
        value = msgspec.json.decode(b"".join(parts))
    except (ValueError, RecursionError):
        hint = 'send a JSON object such as {"name": "value"}'
        raise RequestError(400, "the body is not JSON, or nests too deeply", hint=hint) from None
    if _is_deep(value):
        text = f"the body nests deeper than {_DEEPEST} lists and maps"
        raise RequestError(400, text, hint="send it flatter")
    return value


def _is_deep(value: Any) -> bool:
    """Return whether a value nests so deeply that code which looks into it could fail."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


def _query(request: Request, asked: type[Struct]) -> Mapping[str, Any]:
    """The parameters of the query; those that may be repeated as lists."""
    query = request.query_params
    many = _repeated(asked)
    parameters: dict[str, Any] = {}
    for name in query:
        values = query.getlist(name)
        if name not in many and len(values) > 1:
            text = f"the parameter {name!r} is there more than once"
            raise RequestError(400, text, hint="send it once")
        parameters[name] = values if name in many else values[0]
    return parameters


def _repeated(asked: type[Struct]) -> frozenset[str]:
    hints = get_type_hints(asked)
    return frozenset(name for name, hint in hints.items() if tuple in _origins(hint))


def _origins(hint: Any) -> set[Any]:
    if isinstance(hint, types.UnionType):
        return {origin for member in get_args(hint) for origin in _origins(member)}
    return {get_origin(hint)}


def _is_for_owner(shared: _Shared, request: Request) -> bool:
    """Return whether an answer may contain what is for the owner alone."""
    principals = request.scope.get("principals", NO_PRINCIPALS)
    return principals is None or not shared.engines.whole.settings.reserves


def _refusal(error: DiscoveryError, request: Request, *, to_owner: bool = True) -> Response:
    form = error_form(error)
    if not to_owner:
        form["detail"] = ""
    if isinstance(error, RequestError):
        return _json(error.status, form | error.facts)
    # A person on the page has a terminal for the commands, and no use for a route.
    is_owner = "admin" in request.scope.get("scopes", ())
    if _actor(request) == "program" and (route := next_route(error, is_owner=is_owner)):
        form["hint"] = route
    kinds = (kind for kind in type(error).__mro__ if kind in _STATUSES)
    return _json(_STATUSES[next(kinds)], form)


async def _not_found(request: Request, _: Exception) -> Response:
    text = f"there is nothing at {request.url.path}"
    hint = f"GET {PATH}/openapi.json names the routes"
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
