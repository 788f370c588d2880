"""Maps a failed request to the error that its caller gets."""

from __future__ import annotations

from discovery_engine._util.text import quoted
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
)
from discovery_engine.rpc.messages import ConnectionClosedError, InvalidAnswerError, RpcError
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.rpc_client import RpcClient
from discovery_engine.upstream.transport import Transport

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
