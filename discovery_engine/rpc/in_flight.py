"""Requests in flight on a connection, outgoing and incoming.

An outgoing request awaits a future, without a task of its own. Each incoming request is processed
in a task; their number is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from sys import float_info
from typing import Protocol, TypeAlias, TypeGuard

import anyio

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.messages import (
    ConnectionClosedError,
    ErrorResponse,
    Notification,
    OnProgress,
    Request,
    RequestId,
    RequestTimeout,
    RequestTimeoutError,
    Response,
    RpcError,
    as_json,
    correlated,
    is_request_id,
)
from discovery_engine.rpc.protocol import INTERNAL_ERROR
from discovery_engine.rpc.request_timer import RequestTimer, SharedTimer

_REMEMBERED = 1000  # ids of answered and of cancelled requests
_BACKLOG = 64  # progress notifications of one request that wait for its caller

logger = logging.getLogger(__name__)


class PendingRequest:
    """One outgoing request: its outcome, and the progress that was reported.

    `on_progress` is awaited in the waiter's task, so progress needs no further task, stays in
    order, and is delivered before the result.
    """

    def __init__(
        self, timeout: RequestTimeout | None, on_progress: OnProgress | None, timers: SharedTimer
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[None] = self._loop.create_future()
        self._outcome: JSONObject | Exception | None = None
        self._on_progress = on_progress
        self._progress: deque[tuple[float, float | None, str | None]] | None = (
            deque(maxlen=_BACKLOG) if on_progress else None
        )
        self._work: anyio.CancelScope | None = None  # the scope of what `work` awaits
        self._has_failed = False  # True once the callback failed: one warning for each request
        self._timer = RequestTimer(timeout, self.abort, timers) if timeout else None
        self.clock = timeout.clock if timeout else None  # None once `reading` has paused it

    @property
    def is_settled(self) -> bool:
        return self._outcome is not None

    async def wait(self) -> JSONObject:
        """Wait for the result; `on_progress` is awaited in the caller's task.

        A callback that still runs at the timeout is cancelled; one that raises is logged.

        Raises:
            RpcError: If the answer is an error, or the connection has closed.
            RequestTimeoutError: If there was no answer in time.
        """
        try:
            while True:
                await self._wake
                if self._progress:
                    await self.work(self._report_progress)
                if self._outcome is not None:
                    break
                self._wake = self._loop.create_future()
        finally:
            if self._timer:
                self._timer.stop()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    async def work(self, work: Callable[[], Awaitable[None]]) -> None:
        """Await `work()`, which the timeout and the end of the connection cancel, too."""
        with anyio.CancelScope() as self._work:
            await work()

    def settle(self, outcome: JSONObject | Exception) -> None:
        """Set the outcome; no-op if it is set already."""
        if self._outcome is None:
            self._outcome = outcome
            if not self._wake.done():
                self._wake.set_result(None)

    def abort(self, error: Exception) -> None:
        """Fail the request with `error`, and cancel whatever the waiter awaits."""
        self.settle(error)
        self.stop_timer()
        if self._progress:
            self._progress.clear()
        if self._work:
            self._work.cancel()

    def stop_timer(self) -> None:
        if self._timer:
            self._timer.stop()

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress to the waiter and extend the timeout; no-op without `on_progress`."""
        if self._progress is None or self._outcome is not None:
            return
        if self._timer:
            self._timer.extend()
        self._progress.append((progress, total, message))
        if not self._wake.done():
            self._wake.set_result(None)

    async def _report_progress(self) -> None:
        while self._progress and self._on_progress:
            try:
                await self._on_progress(*self._progress.popleft())
            except Exception:  # an error of the caller's own code must not end its request
                level = logging.DEBUG if self._has_failed else logging.WARNING
                logger.log(level, "A progress callback failed", exc_info=True)
                self._has_failed = True


class PendingRequests:
    """All outgoing requests of one connection, by id; counts unsolicited answers."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._timers = SharedTimer()
        self._waiting: dict[RequestId, PendingRequest] = {}
        self._answered: OrderedDict[RequestId, None] = OrderedDict()
        self._cancelled: OrderedDict[RequestId, None] = OrderedDict()
        self._is_closed = False
        self.unsolicited = 0
        """The number of answers to no request."""
        self.duplicates = 0
        """The number of answers to requests that were answered already."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, timeout: RequestTimeout | None, on_progress: OnProgress | None
    ) -> tuple[RequestId, PendingRequest]:
        """Register a new request; the caller ends it with `discard`.

        Raises:
            ConnectionClosedError: If the connection has closed.
        """
        if self._is_closed:
            raise ConnectionClosedError(was_sent=False)
        number = next(self._numbers)
        request = self._waiting[number] = PendingRequest(timeout, on_progress, self._timers)
        return number, request

    def is_waiting(self, request_id: RequestId) -> bool:
        """Return whether a request has no answer yet."""
        return request_id in self._waiting

    def discard(self, request_id: RequestId) -> None:
        """End a request; a later answer to it does not count as unsolicited."""
        if request := self._waiting.pop(request_id, None):
            request.stop_timer()
            _add_bounded(self._cancelled, request_id)

    def settle(self, request_id: RequestId, outcome: JSONObject | RpcError) -> bool:
        """Give a request its answer; return False, and count the answer, if none waits for it."""
        key = correlated(request_id)
        request = self._waiting.pop(key, None)
        if request is None:
            return self.expects(request_id)
        _add_bounded(self._answered, key)
        request.settle(outcome)
        return True

    def expects(self, request_id: RequestId) -> bool:
        """Return whether a request waits for this answer; if not, count the answer."""
        key = correlated(request_id)
        if key in self._waiting:
            return True
        if key in self._cancelled:
            del self._cancelled[key]
            _add_bounded(self._answered, key)
        elif key in self._answered:
            self.duplicates += 1
        else:
            self.unsolicited += 1
        return False

    def reading(self, request_id: RequestId | None) -> AbstractContextManager[None]:
        """Return a context in which a request's clock is paused while its likely answer is read.

        The clock is paused once for each request, so that a flood of such answers cannot stop it.
        """
        request = self._waiting.get(correlated(request_id or 0))
        if not request or not (clock := request.clock):
            return nullcontext()
        request.clock = None
        return clock.paused()

    def report(self, params: JSONObject) -> None:
        """Pass a progress notification to its request; an invalid one is dropped."""
        token, progress = params.get("progressToken"), _number(params.get("progress"))
        if not is_request_id(token) or progress is None:
            return
        if request := self._waiting.get(correlated(token)):
            message = params.get("message")
            text = message if isinstance(message, str) else None
            request.report(progress, _number(params.get("total")), text)

    def close(self) -> None:
        """Fail all requests, and later ones, since the connection has closed."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            request.abort(ConnectionClosedError())


def is_finite_number(value: JSONValue) -> TypeGuard[float]:
    """Return whether a value is a number within the range of a float, unlike some JSON integers."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= float_info.max


def _number(value: JSONValue) -> float | None:
    return value if is_finite_number(value) else None


def _add_bounded(past: OrderedDict[RequestId, None], request: RequestId) -> None:
    past[request] = None
    if len(past) > _REMEMBERED:
        past.popitem(last=False)


class MessageStream(Protocol):
    """An outgoing stream that accepts messages at once and writes them in order."""

    @property
    def is_congested(self) -> bool:
        """True if so much is buffered that a sender should `drain` first."""

    def write(self, message: JSONObject) -> None:
        """Write a message; no-op if the other side has stopped reading.

        Raises:
            ValueError: If JSON cannot express the message, or it nests too deep.
        """

    async def drain(self) -> None:
        """Wait until the stream is no longer congested, or is closed."""


async def send_request(
    pending: PendingRequests,
    stream: MessageStream,
    method: str,
    params: JSONObject | None = None,
    *,
    timeout: RequestTimeout | None = None,  # noqa: ASYNC109 - extended by progress
    on_progress: OnProgress | None = None,
    can_cancel: bool = True,
) -> JSONObject:
    """Register a request in `pending`, write it to `stream`, and return its result.

    See `Peer.request` for the other arguments and the errors.
    """
    number, waiting = pending.add(timeout, on_progress)
    is_sent = False
    try:
        if stream.is_congested:
            # A request that waits here is not sent, so a caller that gives up has nothing to cancel
            # and leaves nothing in the buffer.
            await waiting.work(stream.drain)
            if waiting.is_settled:
                return await waiting.wait()
        if on_progress:
            params = with_progress_token(params, number)
        stream.write(as_json(Request(number, method, params)))
        is_sent = True
        return await waiting.wait()
    except ConnectionClosedError as error:
        if is_sent:
            raise
        raise ConnectionClosedError(was_sent=False) from error
    except (asyncio.CancelledError, RequestTimeoutError) as error:
        if can_cancel and is_sent and pending.is_waiting(number):
            stream.write(as_json(cancellation(number, error)))
        raise
    finally:
        pending.discard(number)


def cancellation(number: RequestId, error: BaseException) -> Notification:
    """Return the notification that cancels a request because of `error`."""
    is_timeout = isinstance(error, RequestTimeoutError)
    reason = f"timed out: {error}" if is_timeout else "the caller was cancelled"
    return Notification("notifications/cancelled", {"requestId": number, "reason": reason})


def with_progress_token(params: JSONObject | None, number: RequestId) -> JSONObject:
    """Return a copy of `params` with a progress token, which requests progress notifications."""
    params = params or {}
    return {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": number}}


Work: TypeAlias = Callable[[], Awaitable[JSONObject]]
Respond: TypeAlias = Callable[[Response | ErrorResponse | None], None]
"""Called once for each request, with its answer, or None if the other side cancelled it.

It must not block.
"""


class _Incoming:
    __slots__ = ("id", "is_cancelled", "key", "respond", "scope", "size", "task", "work")
    task: asyncio.Task[None]
    """Set when the work begins."""

    def __init__(self, request_id: RequestId, work: Work, respond: Respond, size: int) -> None:
        self.id = request_id
        self.key = correlated(request_id)
        self.work = work
        self.respond = respond
        self.size = size
        self.scope = anyio.CancelScope()
        self.is_cancelled = False
        """True if the other side cancelled the request, and so expects no answer."""


class IncomingRequests:
    """The unanswered incoming requests of one connection; `close` ends them."""

    def __init__(self, *, most: int, on_end: Callable[[], None] = lambda: None) -> None:
        """Create an empty set of requests.

        Args:
            most: The most requests that are processed at once; further ones are queued.
            on_end: Called after each request.
        """
        self._most = most
        self._on_end = on_end
        self._unanswered: dict[RequestId, _Incoming] = {}
        self._waiting: deque[_Incoming] = deque()
        self._running: set[_Incoming] = set()
        self.size = 0
        """The bytes of all unanswered requests."""

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    def start(self, request_id: RequestId, work: Work, respond: Respond, *, size: int = 0) -> None:
        """Answer a request with the result of `work`, or with the `RpcError` that it raises."""
        # A second request with the same id is processed, too, and is the one that can be cancelled.
        incoming = _Incoming(request_id, work, respond, size)
        self._unanswered[incoming.key] = incoming
        self.size += size
        if len(self._running) < self._most:
            self._spawn(incoming)
        else:
            self._waiting.append(incoming)

    def cancel(self, params: JSONObject | None) -> None:
        """Cancel the request that a `notifications/cancelled` names, which then gets no answer.

        No-op if it is answered already, or the params name no request.
        """
        request_id = (params or {}).get("requestId")
        if not is_request_id(request_id):
            return
        if incoming := self._unanswered.get(correlated(request_id)):
            incoming.is_cancelled = True
            incoming.scope.cancel()

    async def close(self) -> None:
        """Cancel all requests, and answer each with the error that the connection is closed."""
        waiting, self._waiting = self._waiting, deque()
        for incoming in waiting:
            self._settle(incoming, _closed(incoming))
        for incoming in self._running:
            incoming.scope.cancel()
        with anyio.CancelScope(shield=True):
            if self._running:
                await asyncio.wait([incoming.task for incoming in self._running])

    def _spawn(self, incoming: _Incoming) -> None:
        self._running.add(incoming)
        incoming.task = asyncio.get_running_loop().create_task(self._run(incoming))

    async def _run(self, incoming: _Incoming) -> None:
        answer: Response | ErrorResponse | None = None
        try:
            # A scope, because cancelling the task would also interrupt shielded clean-up.
            with incoming.scope:
                # Checked, since a cancelled scope acts only at an await, after a call is sent.
                if not incoming.scope.cancel_called:
                    try:
                        answer = Response(incoming.id, await incoming.work())
                    except RpcError as error:
                        answer = ErrorResponse(incoming.id, error)
                    except Exception:  # a bug here must not end the connection
                        logger.exception("A request failed")
                        answer = ErrorResponse(
                            incoming.id, RpcError(INTERNAL_ERROR, "Internal error")
                        )
            self._settle(incoming, answer or _closed(incoming))
        finally:
            # Here, and not in a callback of the task, which takes one more turn of the loop.
            self._running.discard(incoming)
            if self._waiting:
                self._spawn(self._waiting.popleft())
            self._on_end()

    def _settle(self, incoming: _Incoming, answer: Response | ErrorResponse) -> None:
        self.size -= incoming.size
        if self._unanswered.get(incoming.key) is incoming:
            del self._unanswered[incoming.key]
        incoming.respond(None if incoming.is_cancelled else answer)


def _closed(incoming: _Incoming) -> Response | ErrorResponse:
    return ErrorResponse(incoming.id, ConnectionClosedError())
