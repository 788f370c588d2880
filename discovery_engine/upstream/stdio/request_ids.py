"""Which of our requests wait for an answer, so that what nobody asked for is told apart."""

from __future__ import annotations

from collections import OrderedDict

from mcp.shared.dispatcher import coerce_request_id
from mcp_types import RequestId

_REMEMBERED = 1000  # requests that are over


class RequestIds:
    def __init__(self) -> None:
        self._waiting: set[RequestId] = set()
        self._answered: OrderedDict[RequestId, None] = OrderedDict()
        self._given_up: OrderedDict[RequestId, None] = OrderedDict()
        self.unsolicited = 0
        """Answers to what was never asked."""
        self.duplicates = 0
        """Second answers."""

    def add(self, request: RequestId) -> None:
        self._waiting.add(coerce_request_id(request))

    def cancel(self, request: RequestId) -> None:
        """Nobody waits any more; an answer that crosses with this is no fault."""
        known = coerce_request_id(request)
        if known in self._waiting:
            self._waiting.remove(known)
            _keep(self._given_up, known)

    def settle(self, request: RequestId) -> bool:
        """Whether an answer is one that somebody waits for; if not, it is counted."""
        known = coerce_request_id(request)
        if known in self._waiting:
            self._waiting.remove(known)
            _keep(self._answered, known)
            return True
        if known in self._given_up:
            del self._given_up[known]
            _keep(self._answered, known)
        elif known in self._answered:
            self.duplicates += 1
        else:
            self.unsolicited += 1
        return False


def _keep(past: OrderedDict[RequestId, None], request: RequestId) -> None:
    past[request] = None
    if len(past) > _REMEMBERED:
        past.popitem(last=False)
