"""The connection to one client: each request gets an answer, in the client's era.

It is independent of the transport, which passes each message with the stream that all the
consequences of this message are written to.

The first request decides the era. A client that probes with `server/discover` may time out during
a slow start and send `initialize` instead: then it is served in the handshake era, whether or not
its probe was answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from discovery_engine.rpc.client import NOTHING, CallbackClient, passed_meta
from discovery_engine.rpc.in_flight import IncomingRequests, PendingRequests, send_request
from discovery_engine.rpc.json_codec import Overlong, decode_standard
from discovery_engine.rpc.messages import (
    ErrorResponse,
    Notification,
    Request,
    RequestId,
    RequestTimeout,
    Response,
    RpcError,
    answered_id,
    as_json,
    as_message,
    error_answer,
    fault_of,
    unreadable,
)
from discovery_engine.rpc.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from discovery_server.client_messages import (
    CallOutput,
    as_incoming,
    id_at_edges,
    id_of,
    is_response,
    refusal,
)
from discovery_server.eras import (
    ClientRequest,
    ClientSession,
    Era,
    HandshakeEra,
    completed,
    era_of,
)
from discovery_server.gateway import Gateway, method_not_found
from discovery_server.modern_calls import ModernCalls
from discovery_server.question_text import present
from discovery_server.request_state import OtherGatewayError
from discovery_server.subscriptions import LISTS

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_server.client_messages import ClientStream
    from discovery_server.subscriptions import Subscriber

logger = logging.getLogger(__name__)

Line: TypeAlias = bytes | Overlong
PassOn: TypeAlias = Callable[
    [OtherGatewayError, ClientRequest, "ClientStream | None"], Awaitable["JSONObject"]
]
"""The result of a request at another gateway; raises RpcError.

What precedes it is written to the stream, if there is one.
"""

MAX_LINE = 64 << 20  # bytes; a longer line is refused
_MOST_RUNNING = 256  # requests; further ones wait
_MOST_UNANSWERED = 1024  # requests; then no more are read
_MOST_UNANSWERED_BYTES = MAX_LINE
_ROOTS_DEBOUNCE_INTERVAL = 0.05  # seconds in which changes of the client's roots are collected
_COMPLETE = "notifications/elicitation/complete"
_SUBSCRIPTIONS = ("subscriptions/listen", "resources/subscribe", "resources/unsubscribe")
_MOST_ASKED = 256  # requests to the client without an answer; further ones fail


class ClientConnection:
    """Takes the client's messages in order."""

    standalone: ClientStream | None = None
    """For messages that no message of the client has caused; None if there is none now."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        client: str | None = None,
        is_shared: bool = False,
        era: Era | None = None,
        modern: ModernCalls | None = None,
        pass_on: PassOn | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """No message yet.

        Args:
            gateway: What answers the requests.
            client: Identifies one of several concurrent clients.
            is_shared: Whether others have that id, too, because nothing is known of any of them.
            era: That of all its requests; None if the first one decides.
            modern: Shared calls since 2026-07-28, if a client may continue them over another
                connection; the owner of shared ones closes them.
            pass_on: Takes requests about what another gateway has; without, they are refused.
            on_end: Called after each request that had to wait for its answer.
        """
        self.gateway = gateway
        self.client = client
        self._listener: object = self if client is None or is_shared else client
        self._silent = CallbackClient(id=client)
        """The client of a request that is answered at once: it is asked nothing."""
        self._modern = modern or ModernCalls()
        self._shares_modern = modern is not None
        self._pass_on = pass_on
        self._notified: Subscriber | None = None
        self._session = ClientSession(
            lambda: self._subscriber().list_changed_now("tools"), "" if is_shared else client
        )
        self._requests = IncomingRequests(most=_MOST_RUNNING, on_end=on_end)
        self._asked = PendingRequests()
        self._era = era
        self._is_probed = False
        """True if all requests so far were probes, so that the era may still change."""
        self._is_initialized = False
        """True if `notifications/initialized` came before the first request."""
        self._overlong_id: RequestId | None = None
        self._roots_timer: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        """True if the next message should wait, because too much is unanswered."""
        return (
            len(self._requests) >= _MOST_UNANSWERED or self._requests.size >= _MOST_UNANSWERED_BYTES
        )

    @property
    def is_initialized(self) -> bool:
        """True if its client has opened it with `initialize`."""
        return isinstance(self._era, HandshakeEra) and self._era.is_initialized

    @property
    def accepts_batches(self) -> bool:
        """True if a client may now send an array of messages."""
        return self._era is not None and self._era.accepts_batches

    def resume(self, line: bytes) -> None:
        """Continue after a first request that was answered before this object existed."""
        if request := as_incoming(decode_standard(line)):
            params = request.params or {}
            self._era = era_of(request.method, params, is_initialized=False)
            self._is_probed = request.method == "server/discover"
            if isinstance(self._era, HandshakeEra):
                self._accept(self._era, params)

    async def request(
        self,
        stream: ClientStream,
        method: str,
        params: JSONObject | None = None,
        *,
        timeout: RequestTimeout,  # noqa: ASYNC109 - the client gets a cancellation
    ) -> JSONObject:
        """The client's result of a request of ours; only the handshake era has such requests.

        Args:
            stream: That of the client's message which caused the request, or `standalone`.
            method: The method.
            params: Its params.
            timeout: How long to wait. Then the request is cancelled, as it is with its caller.

        Raises:
            RpcError: The error answer; that the connection is closed; or that the client has not
                answered too many other requests.
            RequestTimeoutError: If there is no answer in time.
        """
        if len(self._asked) >= _MOST_ASKED:
            text = f"{_MOST_ASKED} requests to this client are not answered yet"
            raise RpcError(INTERNAL_ERROR, text)
        return await send_request(self._asked, stream, method, params, timeout=timeout)

    async def close(self) -> None:
        """Cancel the requests that have no answer yet, and answer each with an error."""
        self._asked.close()
        if self._roots_timer:
            self._roots_timer.cancel()
        await self._requests.close()
        if not self._shares_modern:
            await self._modern.close()
        if self._notified:
            await self.gateway.subscriptions.remove(self._notified)

    def receive(self, line: Line, stream: ClientStream, following: Iterable[Line] = ()) -> None:
        """Process a line; `following` are the lines behind it that have arrived already."""
        if isinstance(line, Overlong):
            self._refuse_overlong(line, stream)
        elif error := refusal(line):
            stream.write(error)
        elif line and not line.isspace():
            try:
                value = decode_standard(line)
            except ValueError:
                text = "Parse error: the line is not JSON, or nests too deeply"
                _refuse(stream, None, PARSE_ERROR, text)
                return
            if isinstance(value, list) and value and self.accepts_batches:
                for item in value:  # that version lets a server answer each one on its own
                    self.process(item, len(line) // len(value), stream)
            else:
                self.process(value, len(line), stream, following)

    def process(
        self, value: JSONValue, size: int, stream: ClientStream, following: Iterable[Line] = ()
    ) -> None:
        """Process one message of `size` bytes that was decoded; `following` as for `receive`."""
        match as_incoming(value):
            case Request() as request:
                self._on_request(request, size, stream, following)
            case Notification() as notification:
                self._on_notification(notification)
            case None if is_response(value):
                self._on_response(value)
            case None:
                text = "Invalid Request: a line must be one JSON-RPC 2.0 message"
                _refuse(stream, id_of(value), INVALID_REQUEST, text)

    def _on_request(
        self, request: Request, size: int, stream: ClientStream, following: Iterable[Line]
    ) -> None:
        try:
            checked, result = self._answer(request, following)
        except RpcError as error:
            _send(stream, ErrorResponse(request.id, error))
        except Exception:  # a defect of ours must not end the connection
            logger.exception("%s failed", request.method)
            _refuse(stream, request.id, INTERNAL_ERROR, "Internal error")
        else:
            if result is None:
                self._start(request.id, checked, size, stream)
            else:
                _send(stream, Response(request.id, result))

    def _start(
        self, request_id: RequestId, request: ClientRequest, size: int, stream: ClientStream
    ) -> None:
        """Answer a request that has to wait."""
        output = CallOutput(stream, request.params)

        def respond(answer: Response | ErrorResponse | None) -> None:
            output.end()
            if answer:
                _send(stream, answer)
            stream.end(request_id, is_cancelled=answer is None)

        stream.begin()
        work = partial(self._serve, request_id, request, output)
        self._requests.start(request_id, work, respond, size=size)

    def _answer(
        self, request: Request, following: Iterable[Line]
    ) -> tuple[ClientRequest, JSONObject | None]:
        """The request in its version, and its result if it needs no waiting."""
        method, params = request.method, request.params or {}
        is_probe = method == "server/discover" and (self._era is None or self._is_probed)
        if is_probe and any(map(_is_initialize, following)):
            raise method_not_found(method)
        if self._era is None or (self._is_probed and method == "initialize"):
            self._era = era_of(method, params, is_initialized=self._is_initialized)
        self._is_probed = is_probe
        version = self._era.version_of(method, params)
        checked = ClientRequest(method, params, version, self._silent, session=self._session)
        result = self.gateway.answer(checked)
        if isinstance(self._era, HandshakeEra):
            if method == "initialize":
                self._accept(self._era, params)
            elif method == "logging/setLevel":
                self._era.log_level = params["level"]
        return checked, result

    def _serve(
        self, request_id: RequestId, request: ClientRequest, output: CallOutput
    ) -> Awaitable[JSONObject]:
        """The result of a request that has to wait."""
        stream = output.stream
        if request.method in _SUBSCRIPTIONS:
            return self._subscribe(request_id, request, stream)
        if isinstance(self._era, HandshakeEra):
            meta = passed_meta(request.params.get("_meta"))
            caller = HandshakeClient(self, self._era, output, meta)
            on_progress = output.report_progress if output.wants_progress else None
            return self.gateway.serve(replace(request, client=caller), on_progress)
        serve = partial(self._modern.serve, stream=stream, client=self.client, origin=self)
        return self._wherever_it_is(request, partial(serve, self.gateway, request), stream)

    async def _subscribe(
        self, request_id: RequestId, request: ClientRequest, stream: ClientStream
    ) -> JSONObject:
        subscriptions = self.gateway.subscriptions
        match request.method:
            case "subscriptions/listen":
                whose = self._listener
                updates = self.gateway.task_updates(request, self._state_of_task)
                result = await subscriptions.listen(
                    request_id, request.params, whose, stream, updates
                )
                return completed(request.method, result, request.version)
            case "resources/subscribe":
                await subscriptions.watch(self._subscriber(), request.params["uri"])
            case _:
                await subscriptions.unwatch(self._subscriber(), request.params["uri"])
        return {}

    async def _wherever_it_is(
        self,
        request: ClientRequest,
        serve: Callable[[], Awaitable[JSONObject]],
        stream: ClientStream | None = None,
    ) -> JSONObject:
        """Return the result of `serve`, or of the gateway that has what the request is about."""
        try:
            return await serve()
        except OtherGatewayError as elsewhere:
            if self._pass_on is None:
                raise
            return await self._pass_on(elsewhere, request, stream)

    async def _state_of_task(self, request: ClientRequest) -> JSONObject:
        """The result of a `tasks/get`."""

        async def serve() -> JSONObject:
            self._modern.require_here(request)
            return await self.gateway.about_task(request)

        return await self._wherever_it_is(request, serve)

    def _subscriber(self) -> Subscriber:
        """Return the subscriber that is notified on the stream of unsolicited messages."""
        if self._notified is None:
            subscriptions = self.gateway.subscriptions
            whose = self._listener
            self._notified = subscriptions.add(whose, LISTS, lambda: self.standalone)
            self._notified.start()
        return self._notified

    @property
    def client_name(self) -> str:
        """The client's name for itself; empty before it is initialized."""
        return self._session.client_name

    def _accept(self, era: HandshakeEra, initialize: JSONObject) -> None:
        era.accept(initialize)
        self._session.client_name = initialize["clientInfo"]["name"]
        self.gateway.engine.expect_client(era.capabilities)
        if self.gateway.subscriptions.changing:
            self._subscriber()

    def _on_notification(self, notification: Notification) -> None:
        if notification.method == "notifications/cancelled":
            self._requests.cancel(notification.params)
        elif notification.method == "notifications/initialized":
            if self._era is None:
                self._is_initialized = True
            elif isinstance(self._era, HandshakeEra):
                self._era.is_initialized = True
        elif notification.method == "notifications/roots/list_changed":
            self._on_roots_changed()

    def _on_roots_changed(self) -> None:
        if isinstance(self._era, HandshakeEra) and self._roots_timer is None:
            loop = asyncio.get_running_loop()
            self._roots_timer = loop.call_later(
                _ROOTS_DEBOUNCE_INTERVAL, self._pass_on_roots, self._era
            )

    def _pass_on_roots(self, era: HandshakeEra) -> None:
        self._roots_timer = None
        self.gateway.engine.roots_changed(HandshakeClient(self, era))

    def _on_response(self, value: JSONValue) -> None:
        """Pass an answer to the request that waits for it; any other is ignored."""
        match as_message(value) or unreadable(answered_id(value), fault_of(value)):
            case Response(id_, result):
                self._asked.settle(id_, result)
            case ErrorResponse(id_, error):
                self._asked.settle(id_, error)

    def _refuse_overlong(self, line: Overlong, stream: ClientStream) -> None:
        """Answer a line that is too long, when its end has arrived."""
        if line.head:
            self._overlong_id = id_at_edges(line.head, b"")
            return
        head_id, self._overlong_id = self._overlong_id, None
        text = f"INPUT_TOO_LONG: a message may have at most {MAX_LINE:,} bytes"
        request = id_at_edges(b"", line.tail) if head_id is None else head_id
        _refuse(stream, request, INVALID_REQUEST, text)


class HandshakeClient:
    """A client that began with `initialize`: a question is a request to it. Implements `Client`."""

    takes_input_required = False
    takes_tasks = False

    def __init__(
        self,
        connection: ClientConnection,
        era: HandshakeEra,
        output: CallOutput | None = None,
        meta: JSONObject = NOTHING,
    ) -> None:
        """`output` is that of its call; without one it is asked for its roots only."""
        self.id = connection.client
        self.name = connection.client_name
        self.origin = connection
        self.capabilities = era.capabilities
        self.log_level = era.log_level if output else None
        self.meta = meta
        self._version = era.version
        self._output = output
        self._connection = connection

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask on the stream of its call, or of unsolicited messages; see `Client.ask`."""
        connection = self._connection
        stream = self._output.stream if self._output else connection.standalone
        if stream is None:
            raise RpcError(METHOD_NOT_FOUND, f"the client has no stream for {method} now")
        gateway = connection.gateway
        question = await present(method, params, self._version, gateway.scheduler)
        timeout = RequestTimeout(gateway.question_timeout)
        return await connection.request(stream, method, question, timeout=timeout)

    def notify(self, method: str, params: JSONObject) -> None:
        """Pass on a notification that the call caused; see `Client.notify`."""
        if self._output and not self._output.is_over:
            self._output.notify(method, params)
        elif method == _COMPLETE and (stream := self._connection.standalone):
            stream.write(as_json(Notification(method, params)))


def _refuse(stream: ClientStream, request: RequestId | None, code: int, text: str) -> None:
    stream.write(error_answer(request, RpcError(code, text)))


def _send(stream: ClientStream, answer: Response | ErrorResponse) -> None:
    try:
        stream.write(as_json(answer))
    except ValueError:  # a result of a server, wrapped once more, may nest too deeply
        logger.exception("A result cannot be sent")
        _refuse(stream, answer.id, INTERNAL_ERROR, "The result nests too deeply")


def _is_initialize(line: Line) -> bool:
    if isinstance(line, Overlong) or b'"initialize"' not in line or refusal(line):
        return False
    try:
        message = as_incoming(decode_standard(line))
    except ValueError:
        return False
    return isinstance(message, Request) and message.method == "initialize"
