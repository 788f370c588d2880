"""Messages over HTTP: streamable HTTP, or SSE for servers of the old protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import httpx2

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line
from discovery_engine._util.tls_context import load_tls_context
from discovery_engine.config.settings import RemoteTransport, Timeouts
from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.rpc.messages import ConnectionClosedError, RpcError
from discovery_engine.rpc.request_headers import (
    HeaderMap,
    RequestDetails,
    header_fault,
    header_map,
    request_headers,
)
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import TransportKind
from discovery_engine.upstream.http.http_client import HttpClient
from discovery_engine.upstream.http.http_failure import HttpError, HttpFailure
from discovery_engine.upstream.http.http_peer import HttpPeer, open_sse_peer, open_streamable_peer
from discovery_engine.upstream.http.logins import ServerLogin
from discovery_engine.upstream.transport import (
    MessageHandlers,
    Transport,
    handshake_error,
    resources_exhausted,
    timed_out,
)

_CONNECT = 10.0  # seconds for DNS, TCP and TLS
_READ_MARGIN = 60.0  # seconds that a silent stream outlives the longest call
_ENDPOINT = "check that url is an MCP endpoint"
_OK = 200
_UNAUTHORIZED = (401, 403)
_FIRST_ERROR = 400  # a failure below it is a redirect
_NOT_FOUND = 404
_TOO_MANY = 429
_SERVER_ERROR = 500
_TRY_LATER = 503


class HttpTransport(Transport):
    def __init__(self, server: ServerName, kind: TransportKind, peer: HttpPeer) -> None:
        super().__init__(server, peer)
        self.kind = kind

    def headers(self, method: str, details: RequestDetails) -> Mapping[str, str]:
        return request_headers(method, details)

    def header_fault(self, definition: JSONObject) -> str | None:
        return header_fault(definition.get("inputSchema"))

    def header_map(self, definition: JSONObject) -> HeaderMap | None:
        return header_map(definition)

    async def connect_error(self, error: Exception) -> UnavailableError:
        if isinstance(error, ConnectionClosedError) and error.reason:
            reason = f"it did not finish the handshake: {error.reason}"
            return UnavailableError(self.server, FailureKind.NOT_MCP, reason, hint=_ENDPOINT)
        return self._unavailable(error) or handshake_error(self.server, error)

    async def describe_loss(self, error: RpcError) -> str | None:
        if isinstance(error, HttpError):
            failure = error.failure
            return failure.reason if _may_have_been_processed(failure) else None
        if isinstance(error, ConnectionClosedError):
            return error.reason or (error.message if self.is_lost else None)
        return None

    def refusal_error(self, error: RpcError) -> UnavailableError | None:
        return self._unavailable(error)

    def never_left(self, error: RpcError) -> bool:
        return isinstance(error, HttpError) and not error.failure.was_sent

    def wants_new_session(self, error: RpcError) -> bool:
        return isinstance(error, HttpError) and error.failure.lost_session

    def _unavailable(self, error: Exception) -> UnavailableError | None:
        if not isinstance(error, HttpError) or error.failure.status == _OK:  # the server answered
            return None
        return unavailable(self.server, error.failure)


@asynccontextmanager
async def open_http_transport(
    server: ServerName,
    remote: RemoteTransport,
    timeouts: Timeouts,
    scheduler: FairScheduler,
    *,
    limit: int,
    handlers: MessageHandlers,
    login: ServerLogin | None = None,
) -> AsyncIterator[HttpTransport]:
    """A streamable HTTP transport; nothing is sent yet.

    Args:
        server: Its name, for errors.
        remote: With its references resolved.
        timeouts: Seconds for each step.
        scheduler: Shared by all sessions.
        limit: The longest answer in bytes.
        handlers: Called with the messages of the server.
        login: Its login; None if its entry has its own header.
    """
    await load_tls_context()
    async with (
        _client(remote, timeouts, scheduler, limit, login, handlers) as client,
        open_task_group() as tasks,
    ):
        async with open_streamable_peer(client, remote.url, tasks, handlers) as peer:
            yield HttpTransport(server, "http", peer)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_sse_transport(
    server: ServerName,
    remote: RemoteTransport,
    timeouts: Timeouts,
    scheduler: FairScheduler,
    *,
    limit: int,
    on_lost: Callable[[], None],
    handlers: MessageHandlers,
    login: ServerLogin | None = None,
) -> AsyncIterator[HttpTransport]:
    """An SSE transport, once the server has named its endpoint.

    Raises:
        UnavailableError: If it does not in time.
    """
    is_lost = False
    transport: HttpTransport | None = None

    def lose() -> None:
        nonlocal is_lost
        is_lost = True
        if transport:
            transport.is_lost = True
        on_lost()

    await load_tls_context()
    async with (
        _client(remote, timeouts, scheduler, limit, login, handlers) as client,
        open_task_group() as tasks,
    ):
        opening = open_sse_peer(
            client, remote.url, tasks, handlers, on_end=lose, within=timeouts.reach
        )
        async with opening as peer:
            if peer is None:
                raise timed_out(server, timeouts.reach)
            if isinstance(peer, HttpFailure):
                refused = unavailable(server, peer)
                refused.was_open = peer.announces_endpoint
                raise refused
            transport = HttpTransport(server, "sse", peer)
            transport.is_lost = is_lost  # it may be lost already
            yield transport
        tasks.cancel_scope.cancel()


def unavailable(server: ServerName, failure: HttpFailure) -> UnavailableError:
    """The error for a failed exchange, with a hint for the owner."""
    error = _unavailable(server, failure)
    error.detail = one_line(failure.detail)
    return error


def _unavailable(server: ServerName, failure: HttpFailure) -> UnavailableError:
    if failure.lacks_scope:
        return NeedsAuthError(server, failure.reason, hint=failure.hint, kind=FailureKind.SCOPE)
    if failure.status in _UNAUTHORIZED:
        return _needs_auth(server, failure)
    if failure.status is not None:
        pause = failure.retry_after
        wish = f", and asks for a pause of {pause:g} s" if pause else ""
        reason, hint = f"it answers {failure.reason}{wish}", _hint(server, failure)
        error = UnavailableError(server, FailureKind.HTTP, reason, hint=hint)
        error.retry_after = pause
        return error
    if failure.outage is None:
        hint = failure.hint or _ENDPOINT
        return UnavailableError(server, FailureKind.NOT_MCP, failure.reason, hint=hint)
    if failure.os_error is not None:
        return resources_exhausted(server, failure.os_error)
    return UnavailableError(server, failure.outage.kind, failure.reason, hint=failure.outage.hint)


def _hint(server: ServerName, failure: HttpFailure) -> str:
    """The next step for a status; empty for the usual one."""
    if failure.status == _TOO_MANY:
        return f"try again later; `limits.callsPerMinute` of server {server!r} makes calls fewer"
    if failure.retry_after:
        return f"try again in {failure.retry_after:g} s"
    if failure.status is not None and failure.status < _FIRST_ERROR:
        return f"if it has moved, write its new address as `url` of server {server!r}"
    return "check the url" if failure.status == _NOT_FOUND else ""


def _needs_auth(server: ServerName, failure: HttpFailure) -> NeedsAuthError:
    if failure.is_explained:
        return NeedsAuthError(server, failure.reason, hint=failure.hint)
    command = f"`discovery login {server}`"
    if failure.can_log_in and "bearer" in failure.challenge.lower():
        return NeedsAuthError(server, f"it requires a login: {failure.reason}", hint=command)
    hint = f"{command} if it has a login, else check the credentials in its headers"
    answer = f"it answers {failure.reason}"
    return NeedsAuthError(server, answer, hint=hint if failure.can_log_in else "")


def _may_have_been_processed(failure: HttpFailure) -> bool:
    if failure.status is None:
        return failure.was_sent
    return failure.status >= _SERVER_ERROR and failure.status != _TRY_LATER


def _client(
    remote: RemoteTransport,
    timeouts: Timeouts,
    scheduler: FairScheduler,
    limit: int,
    login: ServerLogin | None,
    handlers: MessageHandlers,
) -> HttpClient:
    # A stream may be silent for as long as a question waits, and then for as long as a call takes.
    longest = max(timeouts.call, timeouts.list, timeouts.reach)
    fixed = partial(httpx2.Timeout, 30.0, connect=min(_CONNECT, timeouts.reach), pool=None)

    def timeout() -> httpx2.Timeout:
        return fixed(read=longest + handlers.answer_time() + _READ_MARGIN)

    return HttpClient(scheduler, limit=limit, timeout=timeout, headers=remote.headers, login=login)
