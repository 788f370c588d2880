"""MCP requests over one open connection, and the errors of those that fail.

Results stay the JSON that the server sent: typed models would drop unknown fields.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import quoted
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
)
from discovery_engine.rpc import protocol
from discovery_engine.rpc.messages import (
    ConnectionClosedError,
    InvalidAnswerError,
    OnProgress,
    RequestTimeout,
    RequestTimeoutError,
    RpcError,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call
from discovery_engine.upstream.handshake import ServerInfo, discover, read_discovered, request_meta
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.question import of_questions
from discovery_engine.upstream.requests import CALL_TOOL, UpstreamRequest
from discovery_engine.upstream.task import DECLARED, offers_tasks
from discovery_engine.upstream.transport import RequestDetails, Transport

_LOG_LEVEL_WAIT = 5.0  # seconds
LONGEST_CALL = 600.0
"""Seconds, however often progress is reported."""

_OF_TASKS = (CALL_TOOL, "tasks/get", "tasks/update", "tasks/cancel")


class RpcClient:
    """Sends requests over an open connection, from any task."""

    def __init__(
        self,
        transport: Transport,
        info: ServerInfo,
        *,
        is_stored: bool,
        on_proven: Callable[[], None],
    ) -> None:
        self.transport = transport
        self.info = info
        self.is_stored = is_stored
        """True if `info` comes from an earlier connection."""
        self.is_proven = False
        """True if the server has answered a request in the assumed era."""
        self._on_proven = on_proven
        if not is_stored:
            self._prove()
        self._meta = request_meta(info.version) if info.is_modern else None
        self.offers_tasks = info.is_modern and offers_tasks(info.capabilities)
        """True if the server may return tasks: it declares them, and so do we to it."""

    async def refresh_info(self) -> None:
        """Request `server/discover` again; no-op if the server answers with an error."""
        with suppress(RpcError):
            if info := read_discovered(await discover(self.transport)):
                self.info = info
                self.offers_tasks = offers_tasks(info.capabilities)
                self.is_stored = False

    async def list_page(self, method: str, params: JSONObject, limit: RequestTimeout) -> JSONObject:
        """One page of the list that `method` asks for."""
        return await self.request(method, params, RequestDetails(self.info.version), timeout=limit)

    async def subscribe(self, method: str, uri: str, *, seconds: float) -> None:
        """Send `resources/subscribe` or `resources/unsubscribe`.

        Raises:
            RpcError, RequestTimeoutError: If it fails, or is not answered in time.
        """
        details, timeout = RequestDetails(self.info.version), RequestTimeout(seconds)
        await self.request(method, {"uri": uri}, details, timeout=timeout)

    async def set_log_level(self, level: str) -> None:
        """Ask for log messages from a level on; no-op if the server refuses it."""
        details = RequestDetails(self.info.version)
        timeout = RequestTimeout(_LOG_LEVEL_WAIT)
        with suppress(RpcError, RequestTimeoutError):
            await self.request("logging/setLevel", {"level": level}, details, timeout=timeout)

    async def ping(self, *, seconds: float) -> None:
        """Send `ping`, or to a server of the newer era, which has none, `server/discover`.

        Raises:
            RpcError, RequestTimeoutError: If it fails, or is not answered in time.
        """
        method = "server/discover" if self.info.is_modern else "ping"
        details, timeout = RequestDetails(self.info.version), RequestTimeout(seconds)
        await self.request(method, {}, details, timeout=timeout)

    async def notify(self, method: str) -> None:
        """Send a notification without params; no-op if the connection is lost."""
        headers = self.transport.headers(method, RequestDetails(self.info.version))
        with suppress(RpcError):
            await self.transport.peer.notify(method, headers=headers)

    async def listen(self, notifications: JSONObject) -> None:
        """Ask for these notifications, until the server ends that.

        Raises:
            RpcError: If it does not support that, or the connection breaks.
        """
        method = "subscriptions/listen"
        params: JSONObject = {"notifications": notifications}
        await self.request(method, params, RequestDetails(self.info.version))

    async def request(
        self,
        method: str,
        params: JSONObject,
        details: RequestDetails,
        *,
        meta: JSONObject | None = None,
        timeout: RequestTimeout | None = None,  # noqa: ASYNC109 - extended by progress
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        """The result of a request; see `Peer.request`.

        Args:
            method: The method.
            params: Its params.
            details: The values that its headers depend on.
            meta: Its `_meta`; that of the era if None.
            timeout: How long to wait; for ever if None.
            on_progress: Awaited for each progress notification.
        """
        if meta := meta or self._meta:
            params = {**params, "_meta": meta}
        answer = await self.transport.peer.request(
            method,
            params,
            headers=self.transport.headers(method, details),
            timeout=timeout,
            on_progress=on_progress,
        )
        if not self.is_proven:
            self._prove()
        return answer

    def call_meta(self, request: UpstreamRequest, call: Call) -> JSONObject | None:
        """The `_meta` of a call's requests; None for that of all others.

        The client's own members are in it. They are added here, past what is logged and recorded.
        """
        client_meta = call.client.meta
        if self._meta is None:
            return client_meta or None
        # This era has no notification of changed roots.
        level, capabilities = call.client.log_level, of_questions(call.capabilities)
        if self.offers_tasks and request.method in _OF_TASKS:
            capabilities["extensions"] = DECLARED
        if not (level or capabilities or client_meta):
            return None
        meta = {**client_meta, **self._meta, protocol.CLIENT_CAPABILITIES: capabilities}
        return meta | {protocol.LOG_LEVEL: level} if level else meta

    def _prove(self) -> None:
        self.is_proven = True
        self._on_proven()


_NOTHING_SENT = "nothing was sent, so it is safe to call again"
_MESSAGE_LENGTH = 500  # characters of a server's message


def is_unsent(error: RpcError) -> bool:
    """Return whether a request provably never left this process."""
    return isinstance(error, ConnectionClosedError) and not error.was_sent


async def call_error(transport: Transport, tool: str, error: RpcError) -> UpstreamError:
    if is_unsent(error):
        early = f"it went away before {tool!r} was sent"
        return UnavailableError(transport.server, FailureKind.LOST, early, hint=_NOTHING_SENT)
    if transport.never_left(error) and (refusal := transport.refusal_error(error)):
        return refusal.with_hint(_NOTHING_SENT)
    if reason := await transport.describe_loss(error) or _abandoned(error):
        unknown = OutcomeUnknownError(transport.server, tool, reason)
        if refusal := transport.refusal_error(error):
            unknown.detail = refusal.detail
        return unknown
    return transport.refusal_error(error) or refused(transport.server, error)


async def record_failure(
    history: ServerHistory, rpc: RpcClient, failure: UpstreamError, error: RpcError
) -> None:
    """Record a failed request; a lost session is recorded by the session itself."""
    transport = rpc.transport
    if isinstance(failure, UnavailableError) and not transport.is_lost:
        history.record_failure(failure)
    elif isinstance(failure, OutcomeUnknownError):
        if not transport.is_lost and (reason := await transport.describe_loss(error)):
            reason = f"it failed: {reason}"
            history.record_failure(
                UnavailableError(history.server, FailureKind.LOST, reason, detail=failure.detail)
            )
    elif not transport.is_lost:
        history.record_success()


async def listing_error(transport: Transport, error: RpcError) -> UpstreamError:
    if refusal := transport.refusal_error(error):
        return refusal
    if reason := await transport.describe_loss(error) or _abandoned(error):
        reason = f"it went away while its tools were listed: {reason}"
        return UnavailableError(transport.server, FailureKind.LOST, reason, stderr=transport.stderr)
    return _refused_listing(transport.server, error)


def _refused_listing(server: ServerName, error: RpcError) -> UpstreamProtocolError:
    # The caller of a tool reads the server's message. A listing error is shown to agents beside
    # answers about other servers, so the message goes to `detail`, for the owner.
    if isinstance(error, InvalidAnswerError):
        return refused(server, error)
    refusal = UpstreamProtocolError(server, "", error.code)
    refusal.detail = f"it answered {quoted(error.message[:_MESSAGE_LENGTH])}"
    return refusal


def _abandoned(error: RpcError) -> str | None:
    """Why no answer can come, if this process closed the connection."""
    return "its session was closed" if isinstance(error, ConnectionClosedError) else None


def refused(server: ServerName, error: RpcError) -> UpstreamProtocolError:
    if isinstance(error, InvalidAnswerError):
        return UpstreamProtocolError(server, error.message)
    return UpstreamProtocolError(server, error.message[:_MESSAGE_LENGTH], error.code)
