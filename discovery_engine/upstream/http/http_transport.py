"""Messages over HTTP: the SDK's streamable HTTP, or SSE for servers of the old protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import one_line
from discovery_engine.config.settings import RemoteTransport, Timeouts
from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import TransportKind
from discovery_engine.upstream.http.guarded_client import GuardedClient, HttpFailure
from discovery_engine.upstream.http.sse import open_sse_streams
from discovery_engine.upstream.sdk_messages import is_sdk_safe
from discovery_engine.upstream.transport import (
    ReadingStream,
    Transport,
    handshake_error,
    resources_exhausted,
    timed_out,
)

_CONNECT = 10.0  # seconds for DNS, TCP and TLS
_READ_MARGIN = 60.0  # seconds that a silent stream outlives the longest call
_UNAUTHORIZED = (401, 403)
_FIRST_ERROR = 400  # a failure below it is a redirect
_NOT_FOUND = 404
_SERVER_ERROR = 500
_TRY_LATER = 503


class HttpTransport(Transport):
    def __init__(
        self,
        server: ServerName,
        kind: TransportKind,
        client: GuardedClient,
        streams: tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]],
    ) -> None:
        super().__init__(server)
        self.kind = kind
        self._client = client
        self._streams = streams

    def dispatcher(self) -> JSONRPCDispatcher:
        reading, writing = self._streams
        return JSONRPCDispatcher(_SdkSafeStream(reading), writing)

    def result(self, returned: JSONObject) -> JSONObject:
        return self._client.large_results.restore(returned)

    async def connect_error(self, error: Exception) -> UnavailableError:
        return self._unavailable(error) or handshake_error(self.server, error)

    async def describe_loss(self, error: MCPError) -> str | None:
        failure = self._client.find_failure(error.data)
        if failure is not None:
            return failure.reason if _may_have_been_processed(failure) else None
        broken = error.code == CONNECTION_CLOSED and error.message.startswith("SSE stream")
        garbled = error.code == PARSE_ERROR and error.message.startswith("Failed to parse")
        if broken or garbled or (self.is_lost and error.code == CONNECTION_CLOSED):
            return error.message.partition("\n")[0]
        return None

    def refusal_error(self, error: MCPError) -> UnavailableError | None:
        return self._unavailable(error)

    def wants_new_session(self, error: MCPError) -> bool:
        failure = self._client.find_failure(error.data)
        return failure is not None and failure.lost_session

    def _unavailable(self, error: Exception) -> UnavailableError | None:
        data = error.data if isinstance(error, MCPError) else None
        failure = self._client.find_failure(data)
        return unavailable(self.server, failure) if failure else None


class _SdkSafeStream(ReadingStream):
    """The messages of a stream, without those that crash the SDK."""

    def __init__(self, source: ReadStream[SessionMessage | Exception]) -> None:
        self._source = source

    @property
    def last_context(self) -> object:
        """An attribute that the SDK expects of streams: the sender's context variables."""
        return getattr(self._source, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._source.receive()
            if isinstance(item, Exception) or is_sdk_safe(item.message):
                return item

    async def aclose(self) -> None:
        await self._source.aclose()


@asynccontextmanager
async def open_http_transport(
    server: ServerName,
    remote: RemoteTransport,
    timeouts: Timeouts,
    scheduler: FairScheduler,
    *,
    limit: int,
) -> AsyncIterator[HttpTransport]:
    """A streamable HTTP transport; nothing is sent yet.

    `remote` has its references resolved; `limit` is the longest answer in bytes.
    """
    async with (
        _client(remote, timeouts, scheduler, limit, expects_answers=True) as client,
        streamable_http_client(remote.url, http_client=client, max_sse_event_size=limit) as streams,
    ):
        yield HttpTransport(server, "http", client, streams)


@asynccontextmanager
async def open_sse_transport(
    server: ServerName,
    remote: RemoteTransport,
    timeouts: Timeouts,
    scheduler: FairScheduler,
    *,
    limit: int,
    on_lost: Callable[[], None],
) -> AsyncIterator[HttpTransport]:
    """An SSE transport, once the server has named its endpoint.

    Raises:
        UnavailableError: If it does not in time.
    """

    def lose() -> None:
        transport.is_lost = True
        on_lost()

    async with _client(remote, timeouts, scheduler, limit, expects_answers=False) as client:
        opening = open_sse_streams(client, remote.url, on_end=lose, within=timeouts.reach)
        async with opening as streams:
            if streams is None:
                raise timed_out(server, timeouts.reach)
            if isinstance(streams, HttpFailure):
                raise unavailable(server, streams)
            transport = HttpTransport(server, "sse", client, streams)
            yield transport


def unavailable(server: ServerName, failure: HttpFailure) -> UnavailableError:
    """The error for a failed exchange, with a hint for the owner."""
    error = _unavailable(server, failure)
    error.detail = one_line(failure.detail)
    return error


def _unavailable(server: ServerName, failure: HttpFailure) -> UnavailableError:
    if failure.status in _UNAUTHORIZED:
        return NeedsAuthError(server, f"it answers {failure.reason}")
    if failure.status is not None:
        hint = "check the url" if failure.status == _NOT_FOUND else ""
        if failure.status < _FIRST_ERROR:
            hint = f"if it has moved, write its new address as `url` of server {server!r}"
        error = UnavailableError(
            server, FailureKind.HTTP, f"it answers {failure.reason}", hint=hint
        )
        error.retry_after = failure.retry_after
        return error
    if failure.outage is None:
        return UnavailableError(
            server, FailureKind.NOT_MCP, failure.reason, hint="check that url is an MCP endpoint"
        )
    if failure.os_error is not None:
        return resources_exhausted(server, failure.os_error)
    return UnavailableError(server, failure.outage.kind, failure.reason, hint=failure.outage.hint)


def _may_have_been_processed(failure: HttpFailure) -> bool:
    if failure.status is None:
        return failure.was_sent
    return failure.status >= _SERVER_ERROR and failure.status != _TRY_LATER


def _client(
    remote: RemoteTransport,
    timeouts: Timeouts,
    scheduler: FairScheduler,
    limit: int,
    *,
    expects_answers: bool,
) -> GuardedClient:
    idle = max(timeouts.call, timeouts.list, timeouts.reach) + _READ_MARGIN
    timeout = httpx2.Timeout(30.0, connect=min(_CONNECT, timeouts.reach), read=idle, pool=None)
    return GuardedClient(
        scheduler,
        limit,
        expects_answers=expects_answers,
        headers=dict(remote.headers),
        timeout=timeout,
    )
