"""Tracks the ids of pending requests, to recognize unsolicited and duplicate answers."""

from __future__ import annotations

from collections import OrderedDict

from mcp.shared.dispatcher import coerce_request_id
from mcp_types import RequestId

_REMEMBERED = 1000  # finished requests


class RequestIds:
    def __init__(self) -> None:
        self._waiting: set[RequestId] = set()
        self._answered: OrderedDict[RequestId, None] = OrderedDict()
        self._cancelled: OrderedDict[RequestId, None] = OrderedDict()
        self.unsolicited = 0
        """Answers without a request."""
        self.duplicates = 0
        """Second answers."""

    def add(self, request: RequestId) -> None:
        self._waiting.add(coerce_request_id(request))

    def cancel(self, request: RequestId) -> None:
        """The caller gave up; an answer that is already on its way is no fault."""
        known = coerce_request_id(request)
        if known in self._waiting:
            self._waiting.remove(known)
            _add_bounded(self._cancelled, known)

    def settle(self, request: RequestId) -> bool:
        """Whether a caller waits for this answer; otherwise it is counted."""
        known = coerce_request_id(request)
        if known in self._waiting:
            self._waiting.remove(known)
            _add_bounded(self._answered, known)
            return True
        if known in self._cancelled:
            del self._cancelled[known]
            _add_bounded(self._answered, known)
        elif known in self._answered:
            self.duplicates += 1
        else:
            self.unsolicited += 1
        return False


def _add_bounded(past: OrderedDict[RequestId, None], request: RequestId) -> None:
    past[request] = None
    if len(past) > _REMEMBERED:
        past.popitem(last=False)
