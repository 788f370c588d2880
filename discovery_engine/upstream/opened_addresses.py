"""The addresses that users were asked to open: who is notified when one is done with.

A server reports that by `notifications/elicitation/complete`, mostly after the call that asked.
"""

from __future__ import annotations

from collections.abc import Callable

from cachetools import TTLCache

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import ELICIT, Client
from discovery_engine.upstream.question import Question

_MAX_OPENED_ADDRESSES = 64  # addresses of one session; the oldest are forgotten
_CLIENT_CACHE_TTL = 3600.0  # seconds
_MAX_ELICITATION_ID_LENGTH = 256  # characters of an id


class OpenedAddresses:
    """The opened addresses of one session, each kept for an hour or until it is reported."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clients: TTLCache[str, Client] = TTLCache(
            _MAX_OPENED_ADDRESSES, _CLIENT_CACHE_TTL, timer=clock
        )

    def add(self, question: Question, client: Client) -> None:
        """No-op if it is no question of this kind, or has no id."""
        if question.method != ELICIT or question.mode != "url":
            return
        identifier = question.params.get("elicitationId")
        if isinstance(identifier, str) and len(identifier) <= _MAX_ELICITATION_ID_LENGTH:
            self._clients[identifier] = client

    def take(self, params: JSONObject) -> Client | None:
        """The client that was asked to open an address, once; None if it is not known."""
        identifier = params.get("elicitationId")
        return self._clients.pop(identifier, None) if isinstance(identifier, str) else None
