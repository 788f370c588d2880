"""What a failed request means for whoever made it.

A request that may have been acted on is never sent again; only one that was provably not taken
up may be.
"""

from __future__ import annotations

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from discovery_engine._util.text import quoted
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.transport import Transport

_MESSAGE_LENGTH = 500  # characters of a stranger's words


class RequestNotProcessed(Exception):  # noqa: N818 - a signal inside this room, never an error outside
    """The server provably did not act on a request, and may on a second one."""

    def __init__(self, error: UpstreamError) -> None:
        super().__init__(error)
        self.error = error


async def call_error(transport: Transport, tool: str, error: MCPError) -> UpstreamError:
    if reason := await transport.describe_loss(error) or _abandoned(error):
        return OutcomeUnknownError(transport.server, tool, reason)
    return transport.refusal_error(error) or refused(transport.server, error)


async def listing_error(transport: Transport, error: MCPError) -> UpstreamError:
    if refusal := transport.refusal_error(error):
        return refusal
    if reason := await transport.describe_loss(error) or _abandoned(error):
        reason = f"it went away while its tools were listed: {reason}"
        return UnavailableError(transport.server, FailureKind.LOST, reason, stderr=transport.stderr)
    return _refused_listing(transport.server, error)


def _refused_listing(server: ServerName, error: MCPError) -> UpstreamProtocolError:
    # Whoever called a tool reads the server's words. Here agents read the error beside answers
    # that have nothing to do with that server.
    refusal = UpstreamProtocolError(server, "", error.code)
    refusal.detail = f"it answered {quoted(error.message[:_MESSAGE_LENGTH])}"
    return refusal


def _abandoned(error: MCPError) -> str | None:
    """Why an answer cannot come any more, if it was us who closed the connection."""
    is_ours = error.code == CONNECTION_CLOSED and error.message == "Connection closed"
    return "its session was closed" if is_ours else None


def refused(server: ServerName, error: MCPError) -> UpstreamProtocolError:
    return UpstreamProtocolError(server, error.message[:_MESSAGE_LENGTH], error.code)
