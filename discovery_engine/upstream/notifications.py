"""Notifications of a server that go on: log messages to clients, changes of lists to the engine.

A log message is passed on named, redacted, cleaned and of bounded size.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import anyio

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import clean, named, one_line
from discovery_engine.events import EventBus, ResourceUpdated, ToolsChanged
from discovery_engine.rpc.client import server_meta
from discovery_engine.rpc.messages import Notification
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.redactor import SHORTEST_BEGINNING
from discovery_engine.tools.limits import URI_LENGTH, shortened
from discovery_engine.tools.model import ServerName

LOG_LEVELS = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""Least severe first."""
_MAX_LOG_DATA_LENGTH = 4 * 1024  # characters of a message's data, which take 2 ms to redact at most
_NAME_LENGTH = 100  # characters of a logger's own name


def presented_message(server: ServerName, params: JSONObject) -> JSONObject:
    """The params of `notifications/message`; `logger` begins with the server's name."""
    own = params.get("logger")
    logger = f"{server}/{named(shortened(own, _NAME_LENGTH))}" if isinstance(own, str) else server
    level, meta = params.get("level"), server_meta(params.get("_meta"))
    return {
        **({"_meta": meta} if meta else {}),
        "level": level if level in LOG_LEVELS else "info",
        "logger": one_line(logger),
        "data": _presented(params.get("data")),
    }


def _presented(data: JSONValue) -> JSONValue:
    try:
        size = len(json.dumps(data, ensure_ascii=False))
        if size <= _MAX_LOG_DATA_LENGTH:
            return _redacted(data)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    except RecursionError:
        return "(the message nests too deeply)"
    # The rest of a secret that the cut divides is redacted, or too short to be one.
    return f"{_redacted(text[:_MAX_LOG_DATA_LENGTH])[:-SHORTEST_BEGINNING]}…"


def _redacted(value: JSONValue) -> JSONValue:
    match value:
        case str():
            return KNOWN_SECRETS.redact_log(clean(value))
        case list():
            return [_redacted(item) for item in value]
        case dict():
            return {_redacted(name): _redacted(item) for name, item in value.items()}
    return value


UPDATED = "notifications/resources/updated"
_LIST_CHANGED = frozenset(
    f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")
)


class ChangeEvents:
    """A changed list is published once, until `rearm`: the list is read as a whole anyway."""

    def __init__(self, server: ServerName, events: EventBus) -> None:
        self._server = server
        self._events = events
        self._is_published = False

    def rearm(self) -> None:
        """Publish the next change of a list again; call it before the lists are read."""
        self._is_published = False

    def publish(self, notification: Notification) -> None:
        """No-op for other notifications."""
        if notification.method in _LIST_CHANGED and not self._is_published:
            self._is_published = True
            self._events.publish(ToolsChanged(self._server))
        elif notification.method == UPDATED:
            uri = (notification.params or {}).get("uri")
            if isinstance(uri, str) and len(uri) <= URI_LENGTH:
                self._events.publish(ResourceUpdated(self._server, uri))


_ROOTS_DEBOUNCE_INTERVAL = 0.05  # seconds in which changes are collected
_ROOTS_INTERVAL = 1.0  # seconds between two notifications, however often the roots change


class RootsChanges:
    """The changes of roots in one session; a burst of them is one notification."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    def note(self) -> None:
        """The roots have changed; no-op if the server will be notified anyway."""
        self._changed.set()

    async def announce(self, notify: Callable[[str], Awaitable[None]]) -> None:
        """Notify the server of each change, until cancelled."""
        while True:
            await self._changed.wait()
            await anyio.sleep(_ROOTS_DEBOUNCE_INTERVAL)
            self._changed = anyio.Event()
            await notify("notifications/roots/list_changed")
            await anyio.sleep(_ROOTS_INTERVAL)
