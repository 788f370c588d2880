"""Events for the notifications of servers: redacted, cleaned and of bounded size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from discovery_engine.events import ServerNotification
from discovery_engine.store.call_log.contents import GUESSING
from discovery_engine.tools.limits import shortened
from discovery_engine.upstream.notifications import presented_message

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.tools.model import ServerName

_MAX_NOTIFICATION_LENGTH = 1000  # characters of a text
_MESSAGE = "notifications/message"
_LISTS = frozenset(
    f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")
)


def notification_event(
    server: ServerName, method: str, params: JSONObject | None
) -> ServerNotification | None:
    """The event of a log message or a changed list; None for anything else."""
    if method in _LISTS:
        return ServerNotification(server, method)
    if method != _MESSAGE:
        return None
    message = presented_message(server, params or {})
    data = message["data"]
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return ServerNotification(
        server,
        method,
        message["level"],
        message["logger"],
        shortened(GUESSING.redact(text), _MAX_NOTIFICATION_LENGTH),
    )
