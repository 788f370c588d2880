"""Which ways to reach a server are tried, and in which order.

What is remembered is tried first; if it does not hold, the server is asked anew, once. A program
that goes away when it is asked something new is started again and spoken to in the old way.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import RemoteTransport, ServerSettings
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.upstream.connection import Era, TransportKind

_HOPELESS = {
    FailureKind.NOT_FOUND,
    FailureKind.PERMISSION,
    FailureKind.NEEDS_CONFIG,
    FailureKind.AUTH,
    FailureKind.DNS,
    FailureKind.TLS,
    FailureKind.REFUSED,
    FailureKind.TIMEOUT,
    FailureKind.UNTRUSTED,
}


class ConnectStrategy(Struct, frozen=True):
    """One way to connect."""

    kind: TransportKind
    era: Era | None = None
    """What the server is taken to speak; None asks it."""
    is_remembered: bool = False
    falls_back: bool = False
    """Whether SSE may be tried when streamable HTTP is not spoken."""
    first_failure: UnavailableError | None = None
    """Told in the end if nothing else works: the later ways are only guesses."""

    @property
    def skips_handshake(self) -> bool:
        """Whether a remembered answer stands for the handshake, and nothing is asked."""
        return self.is_remembered and self.era is not None and self.era.discover is not None


def first_strategy(server: ServerSettings, remembered: Era | None) -> ConnectStrategy:
    if remembered is not None:
        return ConnectStrategy(remembered.kind, remembered, is_remembered=True)
    transport = server.transport
    if not isinstance(transport, RemoteTransport):
        return ConnectStrategy("stdio")
    if transport.kind == "sse":
        return ConnectStrategy("sse", Era("sse"))
    return ConnectStrategy("http", falls_back=transport.kind == "auto")


def next_strategy(
    server: ServerSettings, failed: ConnectStrategy, failure: UnavailableError
) -> ConnectStrategy | None:
    """What to try after `failed`; None if that was all."""
    if failure.kind in _HOPELESS:
        return None
    if failed.is_remembered:
        return first_strategy(server, None)
    if failed.kind == "stdio" and failed.era is None and failure.kind is FailureKind.EXITED:
        return replace(failed, era=Era("stdio"))
    if failed.falls_back and failure.kind in {FailureKind.HTTP, FailureKind.NOT_MCP}:
        return ConnectStrategy("sse", Era("sse"), first_failure=failure)
    return None
