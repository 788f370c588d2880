"""Puts the events of transient servers into the feed of all events.

{"type": "transient_started", "server": "transient-5f…"}
{"type": "tool_called", "server": "transient-5f…", …}
{"type": "transient_ended", "server": "transient-5f…"}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.engine.transient_servers import TransientServers
from discovery_engine.json_forms.server_form import server_form
from discovery_server.api.event_feed import event_form

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from discovery_engine._util.json import JSONValue
    from discovery_engine.engine import Engine
    from discovery_engine.events import Event
    from discovery_server.api.event_feed import EventFeed


def open_transient(
    engine: Engine, feed: EventFeed, data: Path, environ: Mapping[str, str]
) -> TransientServers:
    """The transient servers of a gateway, whose events are in its feed; `run` them."""

    def on_event(event: Event) -> None:
        if hasattr(
            event, "server"
        ):  # others are about the engine of one server, which no client has
            feed.announce(event_form(event))

    def on_change(handle: str, is_running: bool) -> None:  # noqa: FBT001 - as it is called
        kind = "transient_started" if is_running else "transient_ended"
        feed.announce({"type": kind, "server": handle})

    def state() -> JSONValue:
        return [server_form(server.engine.view.server(server.handle)) for server in transient.all()]

    transient = TransientServers(engine, data, environ, on_event=on_event, on_change=on_change)
    feed.add_state("transient", state)
    return transient
