"""MCP requests over one open connection, and the errors of failed ones.

Results remain the JSON that the server sent, since typed models would drop unknown fields.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import chain, compress, islice
from typing import Any

from anyio.lowlevel import checkpoint

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import quoted
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
)
from discovery_engine.rpc import protocol
from discovery_engine.rpc.client import NOTHING, of_questions
from discovery_engine.rpc.messages import (
    ConnectionClosedError,
    InvalidAnswerError,
    OnProgress,
    RequestTimeout,
    RequestTimeoutError,
    RpcError,
)
from discovery_engine.rpc.request_headers import RequestDetails
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import CALL_TOOL, Call, UpstreamRequest
from discovery_engine.upstream.handshake import (
    Capabilities,
    ServerInfo,
    discover,
    read_discovered,
    request_meta,
)
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.task import DECLARED, offers_tasks
from discovery_engine.upstream.transport import Transport

_LOG_LEVEL_WAIT = 5.0  # seconds
LONGEST_CALL = 600.0
"""The most seconds of one call, even if progress is reported."""

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
        self.is_modern = info.is_modern
        self._meta = request_meta(info.version) if info.is_modern else None
        self.offers_tasks = info.is_modern and offers_tasks(info.capabilities)
        """True if the server declares tasks, so that calls may return them."""

    async def refresh_info(self) -> None:
        """Request `server/discover` again; no-op if the request fails or its answer is invalid."""
        with suppress(RpcError):
            if info := read_discovered(await discover(self.transport)):
                self.info = info
                self.offers_tasks = offers_tasks(info.capabilities)
                self.is_stored = False

    async def list_page(
        self,
        method: str,
        params: JSONObject,
        limit: RequestTimeout,
        *,
        declared: Capabilities = NOTHING,
    ) -> JSONObject:
        """Request one page of the list of `method`, for clients with these capabilities.

        See `FetchList`. In the older era the session has declared them.
        """
        meta = request_meta(self.info.version, declared) if self.is_modern else None
        return await self.request(method, params, meta=meta, timeout=limit)

    async def set_log_level(self, level: str) -> None:
        """Request log messages of a level and above; no-op if that fails within 5 s."""
        with suppress(RpcError, RequestTimeoutError):
            timeout = RequestTimeout(_LOG_LEVEL_WAIT)
            await self.request("logging/setLevel", {"level": level}, timeout=timeout)

    async def ping(self, *, seconds: float) -> None:
        """Send `ping`, or `server/discover` in the newer era, which has no `ping`.

        Raises:
            RpcError: If the request fails.
            RequestTimeoutError: If it is not answered within `seconds`.
        """
        method = "server/discover" if self.is_modern else "ping"
        await self.request(method, {}, timeout=RequestTimeout(seconds))

    async def notify(self, method: str) -> None:
        """Send a notification without params; no-op if the connection is lost."""
        headers = self.transport.headers(method, RequestDetails(self.info.version))
        with suppress(RpcError):
            await self.transport.peer.notify(method, headers=headers)

    async def listen(self, notifications: JSONObject) -> None:
        """Subscribe to notifications, until the server ends the subscription.

        Raises:
            RpcError: If the server refuses it, or the connection breaks.
        """
        await self.request("subscriptions/listen", {"notifications": notifications})

    def request(
        self,
        method: str,
        params: JSONObject,
        *,
        details: RequestDetails | None = None,
        meta: JSONObject | None = None,
        timeout: RequestTimeout | None = None,
        on_progress: OnProgress | None = None,
    ) -> Awaitable[JSONObject]:
        """Send a request, and return its result; see `Peer.request` for the errors.

        Args:
            method: The method.
            params: The params, without `_meta`.
            details: The values for its HTTP headers; by default only the protocol version.
            meta: The `_meta`; None or empty for that of the era.
            timeout: The time limit; None for none.
            on_progress: Awaited for each progress notification.
        """
        details = details or RequestDetails(self.info.version)
        if meta := meta or self._meta:
            params = {**params, "_meta": meta}
        answer = self.transport.peer.request(
            method,
            params,
            headers=self.transport.headers(method, details),
            timeout=timeout,
            on_progress=on_progress,
        )
        return answer if self.is_proven else self._proving(answer)

    async def _proving(self, answer: Awaitable[JSONObject]) -> JSONObject:
        result = await answer
        if not self.is_proven:
            self._prove()
        return result

    def call_meta(self, request: UpstreamRequest, call: Call) -> JSONObject | None:
        """Return the `_meta` of a call's request; None if it needs only that of the era.

        It includes members of the client, which are added here so that they are neither logged nor
        recorded.
        """
        client_meta = call.client.meta
        if self._meta is None:
            return client_meta or None
        # The newer era has no notification of changed roots.
        level, capabilities = call.client.log_level, of_questions(call.capabilities)
        if self.offers_tasks and request.method in _OF_TASKS:
            capabilities["extensions"] = capabilities.get("extensions", {}) | DECLARED
        if not (level or capabilities or client_meta):
            return None
        meta = {**client_meta, **request_meta(self.info.version, capabilities)}
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
    # The caller of a tool may read its server's message. A listing error is shown to agents along
    # with answers about other servers, so the message is in `detail`, for the owner.
    if isinstance(error, InvalidAnswerError):
        return refused(server, error)
    refusal = UpstreamProtocolError(server, "", error.code)
    refusal.detail = f"it answered {quoted(error.message[:_MESSAGE_LENGTH])}"
    return refusal


def _abandoned(error: RpcError) -> str | None:
    """Return why no answer can come if this process closed the connection, else None."""
    return "its session was closed" if isinstance(error, ConnectionClosedError) else None


def refused(server: ServerName, error: RpcError) -> UpstreamProtocolError:
    if isinstance(error, InvalidAnswerError):
        return UpstreamProtocolError(server, error.message)
    return UpstreamProtocolError(server, error.message[:_MESSAGE_LENGTH], error.code)


_MAX_RESULT_DEPTH = 100  # deeper results may fail in JSON encoders
_NODES = 2000  # nodes per turn of the event loop: a fraction of a millisecond
_FEW = 10  # blocks of content that are checked without yielding to other tasks
_NESTING = frozenset({dict, list})


def is_task(result: JSONObject) -> bool:
    """Return whether a result is the handle of a task (`resultType: task`)."""
    return result.get("resultType") == "task"


async def require_flat(server: ServerSettings, result: JSONObject) -> None:
    """Check that a result nests at most 100 levels deep.

    Raises:
        UpstreamProtocolError: If it nests deeper.
    """
    if not _is_flat(result) and await _exceeds_depth(result, limit=_MAX_RESULT_DEPTH):
        reason = f"it nests more than {_MAX_RESULT_DEPTH} levels deep"
        raise UpstreamProtocolError(server.name, reason)


async def _exceeds_depth(value: JSONObject, *, limit: int) -> bool:
    """Return whether objects and arrays nest deeper than `limit`, yielding to other tasks."""
    level: list[Any] = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for start in range(0, len(level), _NODES):
            if start:
                await checkpoint()
            children = chain.from_iterable(map(_children, level[start : start + _NODES]))
            while some := list(islice(children, _NODES)):
                inner += compress(some, map(_NESTING.__contains__, map(type, some)))
                if len(some) == _NODES:
                    await checkpoint()
        if not inner:
            return False
        level = inner
    return True


def _is_flat(result: JSONObject) -> bool:
    """Return whether a result certainly nests at most three levels deep, as most do."""
    listed = "content" if "content" in result else "contents"  # of a tool, or of a resource
    content = result.get(listed)
    if not isinstance(content, list) or len(content) > _FEW:
        return False
    # Loops, because generators take twice as long, and every result is checked.
    for key, member in result.items():
        if type(member) in _NESTING and key != listed:
            return False
    for block in content:
        if not isinstance(block, dict):
            return False
        for member in block.values():
            if type(member) in _NESTING:
                return False
    return True


def _children(node: Any) -> Iterable[Any]:
    return node.values() if type(node) is dict else node
