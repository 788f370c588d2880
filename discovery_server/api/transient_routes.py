"""Routes of servers for a trial: shown as a plan, started by its digest, and gone without a trace.

One has the name of its handle, so that every route of a server works with it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.engine.transient_servers import MOST, TransientServer, TransientServers
from discovery_engine.json_forms.candidate_form import candidate_form
from discovery_engine.json_forms.plan_digest import require_shown, with_digest
from discovery_engine.json_forms.server_form import server_form
from discovery_server.api.route import (
    ApiRequest,
    ApiRoute,
    Digest,
    EntryBody,
    Nothing,
    RequestError,
    ServerEntry,
)


class TransientEntry(EntryBody, frozen=True, forbid_unknown_fields=True):
    entry: ServerEntry


class StartTransient(EntryBody, frozen=True, forbid_unknown_fields=True):
    entry: ServerEntry
    digest: Digest


class TransientForms(Struct, frozen=True):
    servers: Annotated[list[JSONObject], Meta(description="In the order of their starts.")]


class TransientEnded(Struct, frozen=True):
    ended: bool


async def plan_transient(request: ApiRequest[TransientEntry]) -> JSONObject:
    return with_digest(candidate_form(await request.transient.plan(request.asked.entry)))


async def start_transient(request: ApiRequest[StartTransient]) -> JSONObject:
    transient = request.transient
    plan = await transient.plan(request.asked.entry)
    require_shown(candidate_form(plan), request.asked.digest, "starting a transient server")
    if not transient.has_room:
        text = f"{MOST} transient servers run, which are the most"
        raise RequestError(429, text, hint="end one, or wait for one to end")
    return transient_form(await transient.start(plan), transient)


async def transient_servers(request: ApiRequest[Nothing]) -> TransientForms:
    running = request.transient.all()
    return TransientForms([transient_form(server, request.transient) for server in running])


async def end_transient(request: ApiRequest[Nothing]) -> TransientEnded:
    handle = request.path["handle"]
    if not request.transient.has(handle):
        text = f"no transient server {handle!r} runs"
        raise RequestError(404, text, hint="GET /api/transient names those that do")
    request.transient.end(handle)
    return TransientEnded(ended=True)


def transient_form(server: TransientServer, transient: TransientServers) -> JSONObject:
    report = server.engine.view.server(server.handle)
    left = round(transient.left(server), 1)
    return {"handle": server.handle, "ends_in": left, "server": server_form(report)}


ROUTES = (
    ApiRoute(
        "POST",
        "/transient/plan",
        "Show what a transient server would run",
        plan_transient,
        TransientEntry,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/transient",
        "Start a transient server as shown",
        start_transient,
        StartTransient,
        scope="admin",
        status=201,
    ),
    ApiRoute(
        "GET",
        "/transient",
        "List the transient servers that run",
        transient_servers,
        answer=TransientForms,
        scope="admin",
    ),
    ApiRoute(
        "DELETE",
        "/transient/{handle}",
        "End a transient server",
        end_transient,
        answer=TransientEnded,
        scope="admin",
    ),
)
