"""Routes of servers for a trial: shown, started by the digest, and gone without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.engine.json_forms.catalog_forms import server_form
from discovery_engine.engine.json_forms.owner_forms import candidate_form
from discovery_engine.engine.transient_servers import MOST, TransientServer, TransientServers
from discovery_server.api.event_feed import event_form
from discovery_server.api.route import (
    ApiRequest,
    Confirmation,
    EntryBody,
    Nothing,
    RequestError,
    Routes,
    ServerEntry,
    to_confirm,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from discovery_engine._util.json import JSONValue
    from discovery_engine.engine import Engine
    from discovery_engine.events import Event
    from discovery_server.api.event_feed import EventFeed

routes = Routes()


class TransientEntry(EntryBody, frozen=True, forbid_unknown_fields=True):
    entry: ServerEntry
    digest: Confirmation = None


class TransientForms(Struct, frozen=True):
    servers: Annotated[list[JSONObject], Meta(description="In the order of their starts.")]


class TransientEnded(Struct, frozen=True):
    ended: bool


@routes("POST", "/transient")
async def start_transient(request: ApiRequest[TransientEntry]) -> JSONObject:
    """Start a transient server as shown."""
    transient, body = request.transient, request.asked
    plan = await transient.plan(body.entry)
    if to_show := to_confirm(candidate_form(plan), body.digest, "starting a transient server"):
        return to_show
    if not transient.has_room:
        text = f"{MOST} transient servers run, which are the most"
        raise RequestError(429, text, hint="end one, or wait for one to end")
    return transient_form(await transient.start(plan), transient)


@routes("GET", "/transient")
async def transient_servers(request: ApiRequest[Nothing]) -> TransientForms:
    """List the transient servers that run."""
    running = request.transient.all()
    return TransientForms([transient_form(server, request.transient) for server in running])


@routes("DELETE", "/transient/{handle}")
async def end_transient(request: ApiRequest[Nothing]) -> TransientEnded:
    """End a transient server."""
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


def open_transient(
    engine: Engine, feed: EventFeed, data: Path, environ: Mapping[str, str]
) -> TransientServers:
    """The transient servers of a gateway, whose events are in its feed; `run` them.

    {"type": "transient_started", "server": "transient-5f…"}
    {"type": "tool_called", "server": "transient-5f…", …}
    {"type": "transient_ended", "server": "transient-5f…"}
    """

    def on_event(event: Event) -> None:
        # Others are about the engine of one server, which no client has.
        if hasattr(event, "server"):
            feed.announce(event_form(event))

    def on_change(handle: str, is_running: bool) -> None:  # noqa: FBT001 - as it is called
        kind = "transient_started" if is_running else "transient_ended"
        feed.announce({"type": kind, "server": handle})

    def state() -> JSONValue:
        return [server_form(server.engine.view.server(server.handle)) for server in transient.all()]

    transient = TransientServers(engine, data, environ, on_event=on_event, on_change=on_change)
    feed.add_state("transient", state)
    return transient
