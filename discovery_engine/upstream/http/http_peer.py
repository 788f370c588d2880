"""JSON-RPC over HTTP: streamable HTTP, and the SSE transport of servers from before it.

Each message of ours is a POST. Over streamable HTTP the response holds the answer to a request, as
JSON or as events; a stream that breaks is resumed after its last event. Over SSE all messages of
the server come in one long response, whose first event names the address for ours. A request that
fails fails alone.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.abc import TaskGroup

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import quoted
from discovery_engine.rpc.in_flight import (
    IncomingRequests,
    PendingRequests,
    cancellation,
    with_progress_token,
)
from discovery_engine.rpc.json_codec import edges, encode, sniffed_id
from discovery_engine.rpc.messages import (
    ConnectionClosedError,
    ErrorResponse,
    InvalidAnswerError,
    Message,
    Notification,
    OnProgress,
    Request,
    RequestId,
    RequestTimeout,
    RequestTimeoutError,
    Response,
    RpcError,
    answered_id,
    as_json,
    as_message,
    fault_of,
    unreadable,
)
from discovery_engine.rpc.protocol import MODERN_VERSIONS
from discovery_engine.rpc.request_headers import VERSION
from discovery_engine.rpc.request_timer import RequestTimeLimit
from discovery_engine.upstream.http.event_stream import Event, EventStream
from discovery_engine.upstream.http.http_client import (
    NOT_APPROVED,
    SESSION,
    HttpClient,
    foreign,
    is_of_lost_session,
    media_type,
    named_type,
    origin_of,
)
from discovery_engine.upstream.http.http_failure import HttpError, HttpFailure
from discovery_engine.upstream.transport import MessageHandlers, answer_request, encoded_answer

_ACCEPTED = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}
_EVENTS = {"accept": "text/event-stream", "cache-control": "no-store"}
_UNLABELLED = ("", "text/plain")  # of JSON, if a server names no type, or Go guesses one
_NO_ID = "server-error"  # the id of errors of the SDK for Python that are of no request
_STREAM = "text/event-stream"
_WORKED_ON = 16  # requests of the server at once
_UNANSWERED = 256  # its requests without an answer; further ones are dropped
_ID_LENGTH = 1024  # characters of the id of such a request
_RETRY = 1.0  # seconds before a stream is resumed, if its server names no time
_SHORTEST_RETRY = 0.05  # seconds, whatever it names
_ATTEMPTS = 2  # to resume a stream, in a row
_FAREWELL = 1.0  # seconds for the end of a session
_OK = 200

logger = logging.getLogger(__name__)


class HttpPeer(ABC):
    """Implements `Peer`. Its exchanges run in `tasks`; `run` answers the server's requests."""

    def __init__(
        self, client: HttpClient, url: str, tasks: TaskGroup, handlers: MessageHandlers
    ) -> None:
        self._client = client
        self._url = url
        self._tasks = tasks
        self._handlers = handlers
        self._pending = PendingRequests()
        self._working = IncomingRequests(most=_WORKED_ON)
        self._outbox, self._answers = anyio.create_memory_object_stream[Response | ErrorResponse](
            _UNANSWERED
        )
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: RequestTimeout | None = None,  # noqa: ASYNC109 - extended by progress
        on_progress: OnProgress | None = None,
        can_cancel: bool = True,
    ) -> JSONObject:
        """Send a request and return its result; see `Peer.request`."""
        number, waiting = self._pending.add(timeout, on_progress)
        exchange = anyio.CancelScope()
        try:
            if on_progress:
                params = with_progress_token(params, number)
            request = Request(number, method, params)
            content = encode(as_json(request))
            whole = self._headers(method, headers)
            self._tasks.start_soon(self._exchange, exchange, request, content, whole)
            return await waiting.wait()
        except (asyncio.CancelledError, RequestTimeoutError) as error:
            if can_cancel and self._pending.is_waiting(number) and not self._is_closed:
                self._abandon(number, error, headers)
            raise
        finally:
            self._pending.discard(number)
            exchange.cancel()

    async def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Peer.notify`."""
        if not self._is_closed:
            content = encode(as_json(Notification(method, params)))
            await self._post_only(content, self._headers(method, headers))

    async def run(self) -> None:
        """Send the answers to the server's requests, until cancelled."""
        async with self._answers:
            async for answer in self._answers:
                await self._post_only(encoded_answer(answer), self._headers("", None))

    async def close(self) -> None:
        """Fail the requests in flight, and end the work on the server's."""
        self._is_closed = True
        self._pending.close()
        await self._working.close()
        self._outbox.close()

    def _headers(self, method: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        """Return the headers of a message; `method` is empty for an answer."""
        del method
        return {**_ACCEPTED, **(headers or {})}

    @abstractmethod
    def _abandon(
        self, number: RequestId, error: BaseException, headers: Mapping[str, str] | None
    ) -> None:
        """Have the server cancel a request."""

    @abstractmethod
    async def _result(self, request: Request, response: httpx2.Response) -> JSONObject | None:
        """The result in the response to a request; None if it comes elsewhere.

        Raises:
            RpcError: If it is an error, or cannot be used.
        """

    async def _exchange(
        self, scope: anyio.CancelScope, request: Request, content: bytes, headers: dict[str, str]
    ) -> None:
        """Post a request, and settle it with its answer."""
        outcome: JSONObject | RpcError | None
        with scope:
            try:
                response = await self._client.send(
                    "POST", self._url, content=content, headers=headers
                )
                try:
                    outcome = await self._result(request, response)
                finally:
                    await response.aclose()
            except RpcError as error:
                outcome = error
            except Exception as error:  # a defect must not end the connection of all callers
                logger.exception("An exchange over HTTP failed")
                outcome = ConnectionClosedError(f"its answer could not be read: {error}")
            if outcome is not None and self._pending.is_waiting(request.id):
                self._pending.settle(request.id, outcome)

    async def _post_only(self, content: bytes, headers: dict[str, str]) -> None:
        """Post what has no answer; nobody waits for it, so nobody gets its failure."""
        with suppress(RpcError):
            response = await self._client.send("POST", self._url, content=content, headers=headers)
            await response.aclose()

    def _cancel(self, number: RequestId, error: BaseException, headers: dict[str, str]) -> None:
        content = encode(as_json(cancellation(number, error)))
        self._tasks.start_soon(self._post_only, content, headers)

    def _receive(self, message: Message) -> None:
        """Take a message of the server that is not the answer in its response."""
        match message:
            case Response(id_, result):
                self._pending.settle(id_, result)
            case ErrorResponse(id_, error):
                self._pending.settle(id_, error)
            case Request():
                self._accept(message)
            case Notification("notifications/progress", params):
                self._pending.report(params or {})
            case Notification("notifications/cancelled", params):
                self._working.cancel(params)
            case Notification():
                self._handlers.on_notification(message)

    def _accept(self, request: Request) -> None:
        """Answer a request of the server; dropped if too many have no answer yet."""
        if len(self._working) >= _UNANSWERED or len(str(request.id)) > _ID_LENGTH:
            return
        answer_request(request, self._handlers.on_request, self._working, self._respond)

    def _respond(self, answer: Response | ErrorResponse | None) -> None:
        if answer is not None:  # otherwise the server has cancelled its request
            with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._outbox.send_nowait(answer)


class StreamablePeer(HttpPeer):
    """Streamable HTTP, of both eras."""

    def __init__(
        self, client: HttpClient, url: str, tasks: TaskGroup, handlers: MessageHandlers
    ) -> None:
        super().__init__(client, url, tasks, handlers)
        self._session: str | None = None
        self._version = ""

    def _headers(self, method: str, headers: Mapping[str, str] | None) -> dict[str, str]:
        if method == "initialize":  # no version is agreed on yet, whatever a probe had
            self._version = ""
        elif headers:
            self._version = headers.get(VERSION, self._version)
        own = {VERSION: self._version} if self._version else {}
        if self._session:
            own[SESSION] = self._session
        return {**_ACCEPTED, **own, **(headers or {})}

    async def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Peer.notify`."""
        await super().notify(method, params, headers=headers)
        if method == "notifications/initialized" and self._session and not self._is_closed:
            self._tasks.start_soon(self._follow)

    async def end(self) -> None:
        """End the session at the server, which may not answer."""
        if self._session:
            with anyio.move_on_after(_FAREWELL, shield=True), suppress(RpcError):
                headers = self._headers("", None)
                response = await self._client.send("DELETE", self._url, headers=headers)
                await response.aclose()

    def _abandon(
        self, number: RequestId, error: BaseException, headers: Mapping[str, str] | None
    ) -> None:
        # Since 2026-07-28 a request is cancelled by closing its stream, which its end does.
        if (headers or {}).get(VERSION) not in MODERN_VERSIONS:
            self._cancel(number, error, self._headers("", None))

    async def _result(self, request: Request, response: httpx2.Response) -> JSONObject:
        if request.method == "initialize":
            self._session = response.headers.get(SESSION)
            if not (self._session or "").isascii():
                raise InvalidAnswerError("its session id is not ASCII, as a header must be")
        kind = media_type(response)
        if kind == _STREAM:
            return await self._streamed(request.id, response)
        if "json" not in kind and kind not in _UNLABELLED:
            raise foreign(kind)
        body = await self._client.read(response)
        try:
            with self._pending.reading(request.id):
                value = _own(await self._client.parse(body), request.id)
        except ValueError as error:
            if kind in _UNLABELLED:
                raise foreign(kind, body) from error
            raise InvalidAnswerError(str(error)) from error
        return self._answer(request.id, value)

    def _answer(self, number: RequestId, value: JSONValue) -> JSONObject:
        """The result in an answer. A request that was refused unread is answered without its id."""
        is_answer = isinstance(value, dict) and "method" not in value
        match as_message(value | {"id": number} if is_answer else None):
            case Response(_, result):
                return result
            case ErrorResponse(_, error):
                if is_of_lost_session(self._session, error):
                    failure = HttpFailure(error.message, status=_OK, lost_session=True)
                    raise HttpError(failure, code=error.code)
                raise error
        raise InvalidAnswerError(fault_of(value))

    async def _streamed(self, number: RequestId, response: httpx2.Response) -> JSONObject:
        """The result in the events of a response, and of those that continue it."""
        place = _Place()
        result = await self._read(number, self._client.events(response), place)
        failed = 0
        while result is None:
            if not place.id or failed == _ATTEMPTS:
                raise ConnectionClosedError("its event stream ended without a whole answer")
            await anyio.sleep(place.pause)
            try:
                async with self._stream(place) as events:
                    result = await self._read(number, events, place)
                failed = 0
            except HttpError:
                failed += 1
        return result

    async def _read(
        self, number: RequestId, events: EventStream, place: _Place
    ) -> JSONObject | None:
        """Take the messages of a stream up to the answer of its request; None if there is none.

        The stream of a request has its answer: an event that shows that it is meant as such, and
        is invalid, fails the request.
        """
        async for event in events:
            place.note(event)
            if event.name != "message" or event.data == b"":
                continue
            try:
                with self._pending.reading(number):
                    value = await self._client.parse(event.data)
            except ValueError as error:
                if event.data is None or sniffed_id(*edges(event.data)) is not None:
                    raise InvalidAnswerError(str(error)) from error
                continue
            if isinstance(value, list):
                value = next((entry for entry in value if answered_id(entry) is not None), None)
            message = as_message(value)
            if isinstance(message, Request | Notification):
                self._receive(message)
            elif isinstance(value, dict) and not value.keys().isdisjoint(("result", "error")):
                return self._answer(number, value)
        return None

    async def _follow(self) -> None:
        """Receive what concerns no request, as long as the server has a stream for it."""
        place, failed = _Place(), 0
        while True:
            try:
                async with self._stream(place) as events:
                    failed = 0
                    await self._take_all(events, place)
            except RpcError:  # most servers have none
                failed += 1
            if failed == _ATTEMPTS:
                return
            await anyio.sleep(place.pause)

    async def _take_all(self, events: EventStream, place: _Place) -> None:
        async for event in events:
            place.note(event)
            if event.name == "message" and event.data:
                with suppress(ValueError):
                    if message := as_message(await self._client.parse(event.data)):
                        self._receive(message)

    @asynccontextmanager
    async def _stream(self, place: _Place) -> AsyncIterator[EventStream]:
        """A stream of the server, which continues after the last event that came."""
        headers = self._headers("", None) | _EVENTS
        if place.id:
            headers["last-event-id"] = place.id
        response = await self._client.send("GET", self._url, headers=headers)
        try:
            if media_type(response) != _STREAM:
                raise foreign(media_type(response))
            yield self._client.events(response)
        finally:
            await response.aclose()


class _Place:
    """The place in a stream up to which it was read."""

    def __init__(self) -> None:
        self.id = ""
        self.pause = _RETRY

    def note(self, event: Event) -> None:
        self.id = event.id or self.id
        if event.retry is not None:
            self.pause = max(event.retry, _SHORTEST_RETRY)


class SsePeer(HttpPeer):
    """The SSE transport; `url` is the address that the server has announced."""

    def _abandon(
        self,
        number: RequestId,
        error: BaseException,
        headers: Mapping[str, str] | None,  # noqa: ARG002 - none but the usual
    ) -> None:
        self._cancel(number, error, dict(_ACCEPTED))

    async def _result(self, request: Request, response: httpx2.Response) -> None:
        """None: the answer comes with the events."""

    async def receive(self, events: AsyncIterator[Event], on_end: Callable[[], None]) -> None:
        """Take the messages of the server until the stream ends."""
        async for event in events:
            if event.name == "message" and event.data:
                await self._take(event.data)
            del event  # the next one may be hours away
        on_end()
        await self.close()

    async def _take(self, data: bytes) -> None:
        try:
            value = await self._client.parse(data)
            message = as_message(value) or unreadable(answered_id(value), fault_of(value))
        except ValueError as error:
            message = unreadable(sniffed_id(*edges(data)), str(error))
        if message is not None:
            self._receive(message)


@asynccontextmanager
async def open_streamable_peer(
    client: HttpClient, url: str, tasks: TaskGroup, handlers: MessageHandlers
) -> AsyncIterator[StreamablePeer]:
    """A peer over streamable HTTP; nothing is sent yet. The session ends with the block."""
    peer = StreamablePeer(client, url, tasks, handlers)
    tasks.start_soon(peer.run)
    try:
        yield peer
    finally:
        await peer.close()
        await peer.end()


@asynccontextmanager
async def open_sse_peer(
    client: HttpClient,
    url: str,
    tasks: TaskGroup,
    handlers: MessageHandlers,
    *,
    on_end: Callable[[], None],
    within: float,
) -> AsyncIterator[SsePeer | HttpFailure | None]:
    """A peer over SSE once the server has sent its endpoint, or the failure.

    None if the endpoint did not arrive `within` that many seconds.
    """
    response: httpx2.Response | None = None
    endpoint: str | HttpFailure | None = None
    try:
        with suppress(RequestTimeoutError), RequestTimeLimit(RequestTimeout(within)):
            try:
                response = await client.send("GET", url, headers=_EVENTS, redirects=0)
            except HttpError as error:
                endpoint = error.failure
            except RpcError as error:
                endpoint = HttpFailure(f"its endpoint answers error {error.code}")
            else:
                events = aiter(client.events(response))
                endpoint = await _endpoint(response, events)
        if not isinstance(endpoint, str):
            yield endpoint
            return
        peer = SsePeer(client, endpoint, tasks, handlers)
        tasks.start_soon(peer.run)
        tasks.start_soon(peer.receive, events, on_end)
        try:
            yield peer
        finally:
            await peer.close()
    finally:
        if response is not None:
            with anyio.CancelScope(shield=True):
                await response.aclose()


async def _endpoint(response: httpx2.Response, events: AsyncIterator[Event]) -> str | HttpFailure:
    if (kind := media_type(response)) != _STREAM:
        return HttpFailure(f"it answers with {named_type(kind)}, not with events", detail=kind)
    with suppress(StopAsyncIteration, ValueError):  # the last: no address
        event = await anext(events)
        if event.name == "endpoint" and event.data:
            return _checked_endpoint(str(response.request.url), event.data.decode())
    return HttpFailure("its event stream does not begin with an endpoint")


def _checked_endpoint(url: str, announced: str) -> str | HttpFailure:
    """The address of an endpoint; only one of the same origin is used.

    Raises:
        ValueError: If it is no address.
    """
    endpoint = urljoin(url, announced)
    origin = origin_of(urlsplit(endpoint))
    if origin == origin_of(urlsplit(url)):
        return endpoint
    return HttpFailure(
        f"it announces the endpoint {quoted(origin)}, which is not used: {NOT_APPROVED}",
        hint="have the server announce its public address, for instance by its base URL or, behind"
        " a proxy, by the forwarded headers",
        announces_endpoint=True,
    )


def _own(value: JSONValue, request_id: RequestId) -> JSONValue:
    """The answer to a request, of which there may be several in an array.

    Raises:
        ValueError: If it is one to another request.
    """
    if isinstance(value, list):
        answers = (entry for entry in value if str(answered_id(entry)) == str(request_id))
        return next(answers, value)
    answered = answered_id(value)
    if answered is not None and str(answered) not in (str(request_id), _NO_ID):
        raise ValueError("it is one to another request")
    return value
