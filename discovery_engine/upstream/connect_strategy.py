"""Which ways to connect to a server are tried, and in which order.

The stored era is tried first; if it fails, the server is probed once. A program that exits on
`server/discover` is started again and gets `initialize`.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import RemoteTransport, ServerSettings
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.upstream.connection import Era, TransportKind

_FINAL = {
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
    """The protocol era to use; None probes the server."""
    is_stored: bool = False
    """True if the era comes from an earlier connection."""
    falls_back: bool = False
    """True if SSE is tried when the server does not support streamable HTTP."""
    first_failure: UnavailableError | None = None
    """Raised in the end if the later strategies, which are only guesses, get no further."""

    @property
    def skips_handshake(self) -> bool:
        """True if the stored answer to `server/discover` replaces the handshake."""
        return self.is_stored and self.era is not None and self.era.discover is not None


def first_strategy(server: ServerSettings, stored: Era | None) -> ConnectStrategy:
    if stored is not None:
        return ConnectStrategy(stored.kind, stored, is_stored=True)
    transport = server.transport
    if not isinstance(transport, RemoteTransport):
        return ConnectStrategy("stdio")
    if transport.kind == "sse":
        return ConnectStrategy("sse", Era("sse"))
    return ConnectStrategy("http", falls_back=transport.kind == "auto")


def next_strategy(
    server: ServerSettings, failed: ConnectStrategy, failure: UnavailableError
) -> ConnectStrategy | None:
    """The strategy after `failed`; None if it was the last."""
    if failure.kind in _FINAL:
        return None
    if failed.is_stored:
        return first_strategy(server, None)
    if failed.kind == "stdio" and failed.era is None and failure.kind is FailureKind.EXITED:
        return replace(failed, era=Era("stdio"))
    if failed.falls_back and failure.kind in {FailureKind.HTTP, FailureKind.NOT_MCP}:
        return ConnectStrategy("sse", Era("sse"), first_failure=failure)
    return None
