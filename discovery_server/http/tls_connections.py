"""Connections over TLS, counted from their beginning.

asyncio hands an encrypted connection over after its handshake. Until then it would not be counted,
and clients that never complete theirs could hold any number of descriptors.
"""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from typing import TYPE_CHECKING, Any

from discovery_server.http.client_addresses import machine_of

if TYPE_CHECKING:
    import ssl

    from discovery_server.http.connections import Connection, Connections


class Handshake(SSLProtocol):
    """A connection that is being encrypted; a `Connection` takes its place when it is."""

    def __init__(
        self, connections: Connections, connection: Connection, context: ssl.SSLContext
    ) -> None:
        self.address = ""
        self.transport: asyncio.BaseTransport
        self._connections = connections
        connection.handshake = self
        timeout: Any = connections.limits.head
        no_waiter: Any = None
        super().__init__(
            asyncio.get_running_loop(),
            connection,
            context,
            no_waiter,
            server_side=True,
            ssl_handshake_timeout=timeout,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.address = machine_of(peer[0]) if peer else ""
        if self._connections.admit(self):
            super().connection_made(transport)
        else:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection without a word: there is no key yet to write one with."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
