"""Events for webhooks, and the messages that carry them.

A message holds names, numbers and the reason of a failure; no descriptions, arguments or results.
What comes from a server is cleaned, without known secrets, and bounded.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import one_line
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.rules.patterns import DEFAULT_LIMIT, PatternList
from discovery_engine.rules.ruleset import PatternMatcher, ServerCondition, ServerTarget
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName

MOST_NAMED = 100
"""Tools of one event by name; `count` has how many there are."""
_LONGEST_NAME = 200  # characters
_LONGEST_MESSAGE = 500


class WebhookEvent(Struct, frozen=True):
    type: str
    server: str
    data: Mapping[str, JSONValue]
    """Beside the server's name."""


class StoredEvent(Struct, frozen=True):
    """An event as it is sent."""

    id: str
    type: str
    body: str


def stored_event(event: WebhookEvent, *, at: float) -> StoredEvent:
    """The message of an event that happened at Unix time `at`, with an id of its own."""
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    data = {"server": safe_text(event.server), **event.data}
    form = {"type": event.type, "timestamp": moment.replace("+00:00", "Z"), "data": data}
    body = json.dumps(form, separators=(",", ":"))
    return StoredEvent(f"msg_{secrets.token_hex(16)}", event.type, body)


def tools_event(kind: str, server: str, tools: Iterable[tuple[str, bool]]) -> WebhookEvent:
    """Build the event of some tools of a server: their names, and whether each waits for review."""
    pairs = sorted(tools)
    named: list[JSONValue] = [
        {"name": safe_text(name), "held": is_held} for name, is_held in pairs[:MOST_NAMED]
    ]
    return WebhookEvent(kind, server, {"count": len(pairs), "tools": named})


def failing_event(server: str, code: str, message: str, *, since: float) -> WebhookEvent:
    moment = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
    data: JSONObject = {
        "code": code,
        "message": safe_text(message, _LONGEST_MESSAGE),
        "since": moment.replace("+00:00", "Z"),
    }
    return WebhookEvent("server.failing", server, data)


def safe_text(text: str, longest: int = _LONGEST_NAME) -> str:
    cleaned = one_line(KNOWN_SECRETS.redact(text))
    return cleaned if len(cleaned) <= longest else f"{cleaned[: longest - 1]}…"


def is_wanted(webhook: WebhookSettings, event: WebhookEvent) -> bool:
    """Return whether an event is for a webhook."""
    if not webhook.wants(event.type):
        return False
    if not webhook.servers:
        return True
    condition = ServerCondition(PatternList.parse(webhook.servers), PatternList.parse(()))
    target = ServerTarget(ServerName(event.server), (), PatternMatcher(DEFAULT_LIMIT))
    selection = condition.select(target)
    # An expression that is too slow decides nothing; an event too many is better than a lost one.
    return bool(selection.hits or selection.slow)
