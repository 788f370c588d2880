"""The MCP SDK: streamable HTTP and its header rules. No other module of the engine imports it.

The SDK takes most of a second to import, so this module is loaded when the first remote server is
used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio
import httpx2
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.rpc import protocol
from discovery_engine.rpc.json_codec import decode, encode
from discovery_engine.rpc.messages import (
    ErrorResponse,
    Message,
    Notification,
    Request,
    Response,
)
from discovery_engine.rpc.peer import (
    ConnectionClosedError,
    InvalidAnswerError,
    OnProgress,
    RequestTimeout,
    RpcError,
)
from discovery_engine.rpc.pending import is_finite_number
from discovery_engine.rpc.request_timer import RequestTimeLimit
from discovery_engine.upstream.http.guarded_client import INVALID_ANSWER
from discovery_engine.upstream.transport import (
    HeaderMap,
    MessageHandlers,
    RequestAnswer,
    RequestDetails,
)

Item: TypeAlias = SessionMessage | Exception
RestoreResult: TypeAlias = Callable[[JSONObject], JSONObject]
Streams: TypeAlias = tuple[Any, Any]
"""A stream to read and one to write, as the SDK takes them."""


class Stream:
    """The common part of the SDK's protocols for reading and writing messages.

    `aclose` does nothing: the transport that opened the streams closes them, not the SDK.
    """

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class WritingStream(Stream, ABC):
    """Takes the messages that the SDK sends."""

    async def send(self, item: SessionMessage, /) -> None:
        await self.send_message(_from_sdk(item.message))

    @abstractmethod
    async def send_message(self, message: Message) -> None: ...


class _SafeStream(Stream):
    """The messages of a stream, without those that crash the SDK."""

    def __init__(self, source: Any) -> None:
        self._source = source

    @property
    def last_context(self) -> object:
        """An attribute that the SDK expects of streams: the sender's context variables."""
        return getattr(self._source, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> Item:
        while True:
            item: Item = await self._source.receive()
            if isinstance(item, Exception) or _is_safe(item.message):
                return item

    async def aclose(self) -> None:
        await self._source.aclose()


class SdkPeer:
    """Implements `Peer` on the SDK's dispatcher."""

    def __init__(self, dispatcher: JSONRPCDispatcher, restore: RestoreResult) -> None:
        self._dispatcher = dispatcher
        self._restore = restore
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
        if self._is_closed:
            raise ConnectionClosedError(was_sent=False)
        options: CallOptions = {"cancel_on_abandon": can_cancel}
        if headers:
            options["headers"] = dict(headers)
        with RequestTimeLimit(timeout) as clock:
            progress = _OrderedProgress(on_progress, clock) if on_progress else None
            if progress:
                options["on_progress"] = progress.report
            safe = decode(encode(params))  # what JSON cannot express crashes the SDK
            try:
                result = await self._dispatcher.send_raw_request(method, safe, options)
            except MCPError as error:
                raise _from_sdk_error(error) from error
            if progress:
                await progress.flush()
        return self._restore(result)

    async def notify(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a notification; see `Peer.notify`."""
        options: CallOptions = {"headers": dict(headers)} if headers else {}
        await self._dispatcher.notify(method, params, options)

    def close(self) -> None:
        self._is_closed = True


async def _result(answer: RequestAnswer) -> JSONObject:
    match answer:
        case dict() as result:
            return result
        case RpcError() as error:
            raise error
        case work:
            return _safe(await work())


def _safe(result: JSONObject) -> JSONObject:
    """A result that JSON can express, as the SDK needs it."""
    try:
        return decode(encode(result))  # type: ignore[no-any-return]
    except ValueError as error:
        raise RpcError(protocol.INTERNAL_ERROR, "the answer cannot be written as JSON") from error


def _from_sdk_error(error: MCPError) -> RpcError:
    # The SDK has no types of its own for what it finds itself.
    if (error.code, error.data) == (protocol.PARSE_ERROR, None) and error.message.startswith(
        "Failed to parse"  # in a stream that was resumed
    ):
        return InvalidAnswerError("it is not a message of JSON-RPC")
    if (error.code, error.data) == (protocol.CONNECTION_CLOSED, None):
        if error.message.startswith("SSE stream"):
            return ConnectionClosedError("its event stream ended without a whole answer")
        if error.message == (closed := ConnectionClosedError()).message:
            return closed
    return _from_error_data(error)


def _from_error_data(error: MCPError | ErrorData) -> RpcError:
    if error.data == INVALID_ANSWER:  # written by `GuardedClient`
        return InvalidAnswerError(error.message)
    return RpcError(error.code, error.message, error.data)


class _OrderedProgress:
    """Passes progress on in order, and all of it before the result.

    The SDK reports each in a task of its own, so the result could overtake it.
    """

    def __init__(self, on_progress: OnProgress, clock: RequestTimeLimit) -> None:
        self._on_progress = on_progress
        self._clock = clock
        self._lock = anyio.Lock()

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        self._clock.extend()
        async with self._lock:
            await self._on_progress(progress, total, message)

    async def flush(self) -> None:
        """Wait for what was reported; `anyio.Lock` is fair, so it is acquired last."""
        async with self._lock:
            return


@asynccontextmanager
async def open_peer(
    streams: Streams,
    handlers: MessageHandlers,
    restore: RestoreResult,
) -> AsyncIterator[SdkPeer]:
    """A peer over the streams of a transport; `restore` is applied to each result."""

    async def on_notify(_: object, method: str, params: Mapping[str, Any] | None) -> None:
        handlers.on_notification(Notification(method, dict(params) if params else None))

    async def answer(_: object, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        answer = handlers.on_request(method, dict(params) if params else {})
        try:
            return await _result(answer)
        except RpcError as error:
            raise MCPError(error.code, error.message, error.data) from error

    reading, writing = streams
    dispatcher: JSONRPCDispatcher = JSONRPCDispatcher(_SafeStream(reading), writing)
    async with open_task_group() as tasks:
        await tasks.start(dispatcher.run, answer, on_notify)
        peer = SdkPeer(dispatcher, restore)
        try:
            yield peer
        finally:
            peer.close()
        tasks.cancel_scope.cancel()


def open_streamable_http(
    url: str, client: httpx2.AsyncClient, *, limit: int
) -> AbstractAsyncContextManager[Streams]:
    """The streams of streamable HTTP; nothing is sent yet. `limit` bounds an event, in bytes."""
    return streamable_http_client(url, http_client=client, max_sse_event_size=limit)


def request_headers(method: str, details: RequestDetails) -> dict[str, str]:
    """The HTTP headers of a request that the protocol requires."""
    version = {MCP_PROTOCOL_VERSION_HEADER: details.version}
    if details.version not in protocol.MODERN_VERSIONS:
        return version
    headers = version | {MCP_METHOD_HEADER: method}
    if details.tool is not None:
        headers[MCP_NAME_HEADER] = encode_header_value(details.tool)
    if details.header_map:
        headers |= mcp_param_headers(details.header_map, details.arguments)
    return headers


def header_fault(definition: JSONObject) -> str | None:
    """Return why a tool cannot be used; see `Transport.header_fault`."""
    return find_invalid_x_mcp_header(definition.get("inputSchema"))


def header_map(definition: JSONObject) -> HeaderMap | None:
    """Return the arguments of a tool that are sent as headers; see `Transport.header_map`."""
    return x_mcp_header_map(definition.get("inputSchema")) or None


def session_message(message: Message) -> SessionMessage:
    """A message as the SDK reads it from a stream."""
    return SessionMessage(_to_sdk(message))


def _to_sdk(message: Message) -> JSONRPCMessage:
    # Unchecked: params and results stay as the server sent them.
    match message:
        case Request(id_, method, params):
            return JSONRPCRequest.model_construct(
                jsonrpc="2.0", id=id_, method=method, params=params
            )
        case Notification(method, params):
            return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)
        case Response(id_, result):
            return JSONRPCResponse.model_construct(jsonrpc="2.0", id=id_, result=result)
        case ErrorResponse(id_, error):
            data = ErrorData(code=error.code, message=error.message, data=error.data)
            return JSONRPCError.model_construct(jsonrpc="2.0", id=id_, error=data)


def _from_sdk(message: JSONRPCMessage) -> Message:
    match message:
        case JSONRPCRequest(id=id_, method=method, params=params):
            return Request(id_, method, params)
        case JSONRPCNotification(method=method, params=params):
            return Notification(method, params)
        case JSONRPCResponse(id=id_, result=result):
            return Response(id_, result)
        case JSONRPCError(id=id_, error=error):
            # The dispatcher answers requests of the server, which have an id.
            answered = id_ if id_ is not None else ""
            return ErrorResponse(answered, _from_error_data(error))


def _is_safe(message: JSONRPCMessage) -> bool:
    """Return whether the SDK can parse a message: it converts all progress numbers to float."""
    match message:
        case JSONRPCNotification(method="notifications/progress", params=dict() as params):
            numbers = (params.get("progress"), params.get("total"))
            return all(is_finite_number(number) for number in numbers if isinstance(number, int))
        case _:
            return True
