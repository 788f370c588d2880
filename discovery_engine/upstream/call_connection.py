"""The requests of one call to one server, over one connection."""

from __future__ import annotations

import math

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import (
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.rpc.peer import OnProgress, RequestTimeoutError, RpcError
from discovery_engine.rpc.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from discovery_engine.upstream.call import Call
from discovery_engine.upstream.concurrency import CallLimiter
from discovery_engine.upstream.listing import exceeds_depth, is_flat
from discovery_engine.upstream.request_errors import (
    RequestNotProcessed,
    call_error,
    is_unsent,
    record_failure,
)
from discovery_engine.upstream.requests import UpstreamRequest
from discovery_engine.upstream.rpc_client import RpcClient
from discovery_engine.upstream.server_lists import ServerLists
from discovery_engine.upstream.session import Session

_MAX_RESULT_DEPTH = 100  # deeper results may fail in JSON encoders
_NEVER_EXECUTED = (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND)


class CallConnection:
    """Implements `TaskServer`. `everywhere` limits the requests in flight at all servers."""

    def __init__(
        self,
        session: Session,
        rpc: RpcClient,
        server: ServerSettings,
        call: Call,
        *,
        lists: ServerLists,
        everywhere: CallLimiter,
    ) -> None:
        self.session = session
        self._rpc = rpc
        self.server = server
        self.call = call
        self._lists = lists
        self._everywhere = everywhere

    async def send(
        self,
        request: UpstreamRequest,
        on_progress: OnProgress | None = None,
        *,
        at_most: float = math.inf,
    ) -> JSONObject:
        """The answer to a request.

        Raises:
            RequestNotProcessed: If the server provably did not process it.
            UpstreamError: As `Upstreams.send`.
        """
        session, rpc, server, call = self.session, self._rpc, self.server, self.call
        try:
            if not self._everywhere.acquire_now():
                await self._everywhere.acquire()
            with call.holding(self._everywhere):
                return await rpc.send(
                    request,
                    call=call,
                    seconds=min(server.timeouts.call, at_most),
                    header_map=self._lists.header_map(session, request),
                    on_progress=on_progress,
                )
        except RequestTimeoutError as timeout:
            failure = UpstreamTimeoutError(server.name, repr(request.subject), timeout.seconds)
            session.history.record_timeout(repr(request.subject), timeout.seconds)
            await session.reject_stored_era(rpc, failure)
            raise failure from None
        except RpcError as error:
            raise await self._error(request.subject, error) from error
        except ValueError as error:
            raise UpstreamProtocolError(server.name, str(error), INVALID_PARAMS) from error

    @property
    def is_lost(self) -> bool:
        return self._rpc.transport.is_lost

    async def ask(self, request: UpstreamRequest, seconds: float) -> JSONObject:
        """Send a request about a task; see `TaskServer.ask`."""
        try:
            return await self.send(request, at_most=seconds)
        except RequestNotProcessed as again:  # the call itself must not be sent again
            raise again.error from again

    async def _error(self, subject: str, error: RpcError) -> UpstreamError | RequestNotProcessed:
        """The error to raise for a failed request."""
        session, rpc = self.session, self._rpc
        failure = await call_error(rpc.transport, subject, error)
        if rpc.transport.wants_new_session(error) or is_unsent(error):
            session.retire()
            return RequestNotProcessed(failure)
        if error.code == HEADER_MISMATCH and not self._lists.knows_headers(session):
            await self._lists.read(session.server)  # learns which arguments are sent as headers
            return RequestNotProcessed(failure)
        if await session.reject_stored_era(rpc, failure) and error.code in _NEVER_EXECUTED:
            return RequestNotProcessed(failure)
        await record_failure(session.history, rpc, failure, error)
        return failure


async def require_flat(server: ServerSettings, result: JSONObject) -> None:
    """Refuse a result that nests too deep.

    Raises:
        UpstreamProtocolError: If it does.
    """
    if not is_flat(result) and await exceeds_depth(result, limit=_MAX_RESULT_DEPTH):
        reason = f"it nests more than {_MAX_RESULT_DEPTH} levels deep"
        raise UpstreamProtocolError(server.name, reason)
