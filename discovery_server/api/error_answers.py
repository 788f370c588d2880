"""Errors as answers: their status, their form, and as their hint the next step of a program.

{"code": "TOOL_NOT_FOUND", "message": "…", "hint": "GET /api/servers/git/tools names …", …}
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

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
from discovery_server.api.live_calls import (
    CallCancelledError,
    CallIdTakenError,
    TooManyCallsError,
)
from discovery_server.api.route import RequestError
from discovery_server.api.watched_resources import TooManyWatchedError
from discovery_server.http.paths import API_PATH

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.store.call_log.log_entry import Actor

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


def error_answer(
    error: DiscoveryError, *, by: Actor, has_admin: bool, to_owner: bool
) -> tuple[int, JSONObject]:
    """Return the status and the body.

    Args:
        error: The error.
        by: Whose next step the hint is. A person on the page has a terminal for the commands, and
            no use for a route.
        has_admin: Whether the token has the scope `admin`.
        to_owner: Whether the answer may contain what is for the owner alone.
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
