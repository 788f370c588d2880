"""Routes of the refresh queue, which workers take servers from."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.fleet_form import fleet_form
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing


class FleetServers(Struct, frozen=True, forbid_unknown_fields=True):
    servers: Annotated[
        list[str] | None, Meta(description="Which; all that it can concern without it.")
    ] = None


class FleetAnswer(Struct, frozen=True):
    servers: Annotated[list[str], Meta(description="Those that workers will list now.")]


async def fleet(request: ApiRequest[Nothing]) -> JSONObject:
    return fleet_form(await request.owner.fleet.status())


async def retry_fleet(request: ApiRequest[FleetServers]) -> FleetAnswer:
    return FleetAnswer([*await request.owner.fleet.retry(request.asked.servers)])


async def refresh_fleet(request: ApiRequest[FleetServers]) -> FleetAnswer:
    return FleetAnswer([*await request.owner.fleet.refresh(request.asked.servers)])


ROUTES = (
    ApiRoute("GET", "/fleet", "Show the refresh queue of workers", fleet, scope="admin"),
    ApiRoute(
        "POST",
        "/fleet/retry",
        "Have workers try servers again that failed",
        retry_fleet,
        FleetServers,
        FleetAnswer,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/fleet/refresh",
        "Have workers list servers now",
        refresh_fleet,
        FleetServers,
        FleetAnswer,
        scope="admin",
    ),
)
