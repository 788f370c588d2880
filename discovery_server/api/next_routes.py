"""The next step of a program that got an error: a route where the command line names a command."""

from __future__ import annotations

from urllib.parse import quote

from discovery_engine.errors import (
    DisabledError,
    DiscoveryError,
    MarketplaceEntryNotFoundError,
    MarketplaceSourceNotFoundError,
    NotFoundError,
    NotInstalledError,
    OfferingDisabledError,
    PromptNotFoundError,
    ResourceNotFoundError,
    ServerNotFoundError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
    ViewNotFoundError,
    WebhookNotFoundError,
)
from discovery_engine.json_forms.error_form import with_nearest
from discovery_server.http.early_refusals import API_PATH

_ROUTES_TO_NAMES: dict[type[NotFoundError], str] = {
    MarketplaceEntryNotFoundError: f"GET {API_PATH}/marketplace?query=… finds names",
    MarketplaceSourceNotFoundError: f"GET {API_PATH}/marketplace/sources names them all",
    NotInstalledError: f"GET {API_PATH}/marketplace/updates names those that were installed",
    ServerNotFoundError: f"GET {API_PATH}/servers names them all",
    ToolNotFoundError: f"GET {API_PATH}/search?query=… finds tools by words",
    ViewNotFoundError: f"GET {API_PATH}/views names them",
    WebhookNotFoundError: f"GET {API_PATH}/webhooks names them",
}


def next_route(error: DiscoveryError, *, is_owner: bool) -> str | None:
    """Return the request to send next; None if no route helps more than the hint of the error.

    Args:
        error: The error that answers the request.
        is_owner: Whether its token has the scope `admin`, which a reason needs.
    """
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
            why = _path("servers", error.server, "tools", error.tool, "why")
            return f"GET {why} shows what each rule did"
    return None


def _route_to_names(error: NotFoundError) -> str | None:
    match error:
        case ToolNotFoundError(server=str(server)):
            return f"GET {_path('servers', server, 'tools')} names its tools"
        case ResourceNotFoundError(server=str(server)):
            return f"GET {_path('servers', server, 'resources')} names those that can be read"
        case PromptNotFoundError(server=str(server)):
            return f"GET {_path('servers', server, 'prompts')} names them"
    return _ROUTES_TO_NAMES.get(type(error))


def _path(*parts: str) -> str:
    return "/".join((API_PATH, *(quote(part, safe="") for part in parts)))
