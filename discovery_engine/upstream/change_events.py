"""Publishes the changes that a server announces: of its lists, and of single resources."""

from __future__ import annotations

from discovery_engine.events import EventBus, ResourceUpdated, ToolsChanged
from discovery_engine.rpc.messages import Notification
from discovery_engine.tools.limits import URI_LENGTH
from discovery_engine.tools.model import ServerName

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
