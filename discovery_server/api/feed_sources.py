"""What is looked for on disk while a client follows events: other processes write it, too.

    {"type": "log_entry", "id": 91, "kind": "call", "server": "maps", "outcome": "ok", …}
    {"type": "log_entries_skipped", "count": 300}
    {"type": "request_made", "id": "5f…", "action": "install", "name": "files", …}
    {"type": "request_decided", "id": "5f…", "action": "install", "state": "failed", …}
    {"type": "server_state_changed", "server": "maps", "state": "degraded", "reason": "…"}

Agents' gateways over stdio are processes of their own: what their clients do is in no event of this
one. Entries have neither arguments nor results, requests not what is given with them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.errors import DiscoveryError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.call_log.log_entry import LogEntry
    from discovery_engine.engine import Engine
    from discovery_engine.registry.request_records import AgentRequest

logger = logging.getLogger(__name__)

_LOG_INTERVAL = 0.5  # seconds
_GATEWAYS_INTERVAL = 1.0  # seconds
_REQUESTS_INTERVAL = 2.0  # seconds; a look takes 5 ms
_MOST_ENTRIES = 100  # at once; a reader of more sees how many there were
_NOT_SENT = frozenset({"arguments", "result"})

Announce = Callable[["JSONObject"], object]
Wanted = Callable[[], Awaitable[object]]


async def follow_log(engine: Engine, announce: Announce, wanted: Wanted) -> None:
    """Announce the entries of the log as they are written, until cancelled.

    `wanted` returns once a client follows events.
    """
    reader = engine.call_log.reader
    last = await anyio.to_thread.run_sync(reader.last_id)
    while True:
        await wanted()
        try:
            found = await anyio.to_thread.run_sync(reader.after, last)
        except DiscoveryError as error:
            logger.debug("The log cannot be followed: %s", error)
            found = []
        if found:
            last = found[-1].id
        if skipped := len(found[:-_MOST_ENTRIES]):
            announce({"type": "log_entries_skipped", "count": skipped})
        for entry in found[-_MOST_ENTRIES:]:
            announce(_entry_form(entry))
        await anyio.sleep(_LOG_INTERVAL)


async def follow_requests(engine: Engine, announce: Announce, wanted: Wanted) -> None:
    """Announce what agents ask their owner for, and what is decided about it, until cancelled.

    `wanted` is as for `follow_log`.
    """
    known: dict[str, str] | None = None
    while True:
        await wanted()
        try:
            found = await engine.requests.list()
        except DiscoveryError as error:
            logger.debug("Requests of agents cannot be followed: %s", error)
        else:
            for one in found if known is not None else ():
                if kind := _change(known.get(one.id) if known else None, one.state):
                    announce(_request_form(kind, one))
            known = {one.id: one.state for one in found}
        await anyio.sleep(_REQUESTS_INTERVAL)


async def follow_gateways(engine: Engine, announce: Announce, wanted: Wanted) -> None:
    """Announce the states of servers as other gateways find them, until cancelled.

    `wanted` is as for `follow_log`.
    """
    known = await engine.elsewhere()
    while True:
        await wanted()
        found = await engine.elsewhere()
        changed = {
            name for name in found.keys() | known.keys() if found.get(name) != known.get(name)
        }
        for one in await engine.health(found) if changed else ():
            if one.name in changed:
                form = {"server": one.name, "state": one.state.value, "reason": one.reason}
                announce({"type": "server_state_changed", **form})
        known = found
        await anyio.sleep(_GATEWAYS_INTERVAL)


def _change(before: str | None, now: str) -> str:
    """The type of the event; empty if there is none."""
    if before is None:
        return "request_made"
    is_open = now in ("waiting", "deciding")
    return "request_decided" if before != now and not is_open else ""


def _entry_form(entry: LogEntry) -> JSONObject:
    form = entry.to_json()
    return {"type": "log_entry"} | {name: form[name] for name in form if name not in _NOT_SENT}


def _request_form(kind: str, request: AgentRequest) -> JSONObject:
    return {
        "type": kind,
        "id": request.id,
        "action": request.action,
        "name": request.name,
        "client": request.client,
        "state": request.state,
    }
