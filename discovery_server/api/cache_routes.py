"""Routes of what is remembered of servers between runs."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.cache_form import cache_form, reindex_form
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing


class Forget(Struct, frozen=True, forbid_unknown_fields=True):
    server: Annotated[tuple[str, ...], Meta(description="Which; all without one.")] = ()


class Forgotten(Struct, frozen=True):
    forgotten: Annotated[int, Meta(description="Tools.")]


async def cache(request: ApiRequest[Nothing]) -> JSONObject:
    owner = request.owner
    path, now = owner.registry_file, owner.call_log.now()
    return await anyio.to_thread.run_sync(cache_form, owner.view, path, now)


async def clear_cache(request: ApiRequest[Forget]) -> Forgotten:
    return Forgotten(await request.owner.forget(request.asked.server or None))


async def reindex(request: ApiRequest[Nothing]) -> JSONObject:
    return reindex_form(await request.owner.reindex())


ROUTES = (
    ApiRoute("GET", "/cache", "Show what is remembered of servers", cache, scope="admin"),
    ApiRoute(
        "DELETE",
        "/cache",
        "Forget the tools of servers, which are listed again when needed",
        clear_cache,
        Forget,
        Forgotten,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/cache/reindex",
        "Make the search index and the vectors of all tools anew",
        reindex,
        scope="admin",
    ),
)
