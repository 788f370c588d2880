"""Requests of the other side: each is answered in a task of its own, at most so many at once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import ErrorResponse, Response, correlated
from discovery_engine.rpc.peer import ConnectionClosedError, RequestId, RpcError
from discovery_engine.rpc.protocol import INTERNAL_ERROR

logger = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], Awaitable[JSONObject]]
Respond: TypeAlias = Callable[[Response | ErrorResponse | None], None]
"""Called once for a request: with its answer, or with None if the other side cancelled it. Must not
block."""


class _Incoming:
    __slots__ = ("id", "is_cancelled", "respond", "scope", "size", "work")

    def __init__(self, request_id: RequestId, work: Work, respond: Respond, size: int) -> None:
        self.id = request_id
        self.work = work
        self.respond = respond
        self.size = size
        self.scope = anyio.CancelScope()
        self.is_cancelled = False
        """By the other side, which then expects no answer."""


class IncomingRequests:
    """The requests of one connection that have no answer yet; `close` ends them."""

    def __init__(self, *, most: int, on_end: Callable[[], None] = lambda: None) -> None:
        """No requests yet.

        Args:
            most: How many are worked on at once; further ones wait.
            on_end: Called after each request.
        """
        self._most = most
        self._on_end = on_end
        self._unanswered: dict[RequestId, _Incoming] = {}
        self._waiting: deque[_Incoming] = deque()
        self._running: dict[asyncio.Task[None], _Incoming] = {}
        self.size = 0
        """The bytes of all of them."""

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    def start(self, request_id: RequestId, work: Work, respond: Respond, *, size: int = 0) -> None:
        """Answer a request with the result of `work`, or with the `RpcError` that it raises."""
        # A second request with the same id is worked on, too; a cancellation then means that one.
        incoming = _Incoming(request_id, work, respond, size)
        self._unanswered[correlated(request_id)] = incoming
        self.size += size
        if len(self._running) < self._most:
            self._spawn(incoming)
        else:
            self._waiting.append(incoming)

    def cancel(self, request_id: RequestId) -> None:
        """Cancel a request, which then gets no answer; no-op if it has one."""
        if incoming := self._unanswered.get(correlated(request_id)):
            incoming.is_cancelled = True
            incoming.scope.cancel()

    async def close(self) -> None:
        """Cancel all requests, and answer each with the error that the connection is closed."""
        waiting, self._waiting = self._waiting, deque()
        for incoming in waiting:
            self._settle(incoming, _closed(incoming))
        for incoming in self._running.values():
            incoming.scope.cancel()
        with anyio.CancelScope(shield=True):
            if self._running:
                await asyncio.wait(self._running)

    def _spawn(self, incoming: _Incoming) -> None:
        task = asyncio.get_running_loop().create_task(self._run(incoming))
        self._running[task] = incoming
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if self._waiting:
            self._spawn(self._waiting.popleft())
        self._on_end()

    async def _run(self, incoming: _Incoming) -> None:
        answer = _closed(incoming)
        # A scope, because cancelling the task would also interrupt shielded clean-up.
        with incoming.scope:
            # A cancelled scope takes effect at the first wait, and by then a call would be sent.
            if not incoming.scope.cancel_called:
                answer = await _answer(incoming)
        self._settle(incoming, answer)

    def _settle(self, incoming: _Incoming, answer: Response | ErrorResponse) -> None:
        self.size -= incoming.size
        key = correlated(incoming.id)
        if self._unanswered.get(key) is incoming:
            del self._unanswered[key]
        incoming.respond(None if incoming.is_cancelled else answer)


def _closed(incoming: _Incoming) -> Response | ErrorResponse:
    return ErrorResponse(incoming.id, ConnectionClosedError())


async def _answer(incoming: _Incoming) -> Response | ErrorResponse:
    try:
        return Response(incoming.id, await incoming.work())
    except RpcError as error:
        return ErrorResponse(incoming.id, error)
    except Exception:  # a defect of ours must not end the connection
        logger.exception("A request failed")
        return ErrorResponse(incoming.id, RpcError(INTERNAL_ERROR, "Internal error"))
