"""The messages of events for webhooks, each on its way to one webhook, and the state of a webhook.

    pending   sent when it is due, and again until it is accepted
    dead      refused for too long, or its webhook is gone: nothing is sent until its owner says so

Times are Unix times in seconds by the clock of the registry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.retry_after import backoff
from discovery_engine._util.text import one_line
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.rules.patterns import DEFAULT_LIMIT, PatternList
from discovery_engine.rules.ruleset import PatternMatcher, ServerCondition, ServerTarget
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName


class Delivery(Struct, frozen=True):
    """A delivery that one process was given to send."""

    id: int
    webhook: str
    event_id: str
    """Stays the same for every attempt, and for every webhook."""
    event_type: str
    body: str
    """JSON, as it is signed and sent."""
    attempts: int
    """Attempts since it was stored or retried by hand, this one included."""
    fence: int
    """The number of claims so far: a result counts only if no other process has claimed since."""
    waiting: float
    """Seconds since it was stored, or retried by hand."""


class WebhookState(Struct, frozen=True):
    """A webhook of a configuration, as the registry has it."""

    name: str
    pending: int = 0
    dead: int = 0
    delivered: int = 0
    """Events that were accepted, ever."""
    dropped: int = 0
    """Events that were stored and dropped, because too many waited."""
    oldest_at: float | None = None
    """The time at which the oldest pending event was stored; None if none is pending."""
    delivered_at: float | None = None
    """The time at which an event was last accepted."""
    failed_at: float | None = None
    """The time at which an attempt last failed."""
    failure: str = ""
    """The reason why it failed; empty if the last attempt was accepted."""
    disabled_at: float | None = None
    """The time at which its receiver said that it is gone, or None. Nothing is stored since."""


class ServerHealth(Struct, frozen=True):
    """The health of a server as it was last sent to webhooks."""

    failing_at: float | None = None
    """The time since which they know it as failing; None if they do not."""
    well_at: float | None = None
    """The time at which they were last sent that it is well again."""


FIRST_BACKOFF = 5.0  # seconds
LONGEST_BACKOFF = 6 * 3600.0
_FACTOR = 4.0
GIVE_UP_AFTER = 3 * 86_400.0  # seconds since it was stored: a long weekend without a receiver
MOST_STORED = 10_000
"""Deliveries of one webhook, pending and dead; then the oldest are dropped."""


def backoff_after(
    attempts: int, waiting: float, random: Callable[[], float], *, asked: float | None = None
) -> float | None:
    """Seconds until the next attempt, after this many failed; None if there is to be none.

    Args:
        attempts: Those that failed.
        waiting: Seconds since the event was stored.
        random: Gives numbers from 0 to 1. Half of the pause is random, so that what failed
            together is not sent together.
        asked: Seconds that the receiver asks to be left alone; at most `LONGEST_BACKOFF` of them
            are granted.
    """
    if waiting >= GIVE_UP_AFTER:
        return None
    longest = backoff(max(attempts, 1), FIRST_BACKOFF, LONGEST_BACKOFF, factor=_FACTOR)
    pause = longest * (0.5 + 0.5 * random())
    return max(pause, min(asked or 0.0, LONGEST_BACKOFF))


# A message of an event holds names, numbers and the reason of a failure; no descriptions, arguments
# or results. What comes from a server is cleaned, without known secrets, and bounded.

MOST_NAMED = 100
"""Tools of one event by name; `count` has how many there are."""
_LONGEST_NAME = 200  # characters
_LONGEST_MESSAGE = 500


class WebhookEvent(Struct, frozen=True):
    type: str
    server: str
    data: Mapping[str, JSONValue]
    """The data beside the server's name."""


class StoredEvent(Struct, frozen=True):
    """An event as it is sent."""

    id: str
    type: str
    body: str


def stored_event(event: WebhookEvent, *, at: float) -> StoredEvent:
    """The message of an event that happened at Unix time `at`, with an id of its own."""
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    data = {"server": _safe_text(event.server), **event.data}
    form = {"type": event.type, "timestamp": moment.replace("+00:00", "Z"), "data": data}
    body = json.dumps(form, separators=(",", ":"))
    return StoredEvent(f"msg_{os.urandom(16).hex()}", event.type, body)


def tools_event(kind: str, server: str, tools: Iterable[tuple[str, bool]]) -> WebhookEvent:
    """Build the event of some tools of a server: their names, and whether each waits for review."""
    pairs = sorted(tools)
    named: list[JSONValue] = [
        {"name": _safe_text(name), "held": is_held} for name, is_held in pairs[:MOST_NAMED]
    ]
    return WebhookEvent(kind, server, {"count": len(pairs), "tools": named})


def failing_event(server: str, code: str, message: str, *, since: float) -> WebhookEvent:
    moment = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
    data: JSONObject = {
        "code": code,
        "message": _safe_text(message, _LONGEST_MESSAGE),
        "since": moment.replace("+00:00", "Z"),
    }
    return WebhookEvent("server.failing", server, data)


def _safe_text(text: str, longest: int = _LONGEST_NAME) -> str:
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
