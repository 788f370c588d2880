"""The logins of remote servers: their access tokens, by server, from the secret store."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.config.settings import RemoteTransport
from discovery_engine.errors import SecretStoreError
from discovery_engine.secret_store.store import SecretStore, Stamp
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.upstream.http.oauth.token_source import TokenSource


class Logins:
    def __init__(self, store: SecretStore, *, clock: Callable[[], float]) -> None:
        """`clock` gives Unix time in seconds."""
        self.store = store
        self._clock = clock
        self._sources: dict[ServerName, tuple[RemoteTransport, TokenSource]] = {}

    def stamp(self) -> Stamp:
        """Another one after every login and logout, also by another process."""
        return self.store.stamp()

    async def servers(self) -> frozenset[str]:
        """The servers that have a login; none if the store cannot be read."""
        from discovery_engine.upstream.http.oauth.stored_login import (  # noqa: PLC0415
            servers_in,  # only a store with logins needs it
        )

        try:
            return await anyio.to_thread.run_sync(servers_in, self.store)
        except SecretStoreError:
            return frozenset()

    def tokens_of(self, server: ServerName, remote: RemoteTransport) -> TokenSource | None:
        """The tokens of a server, shared by its sessions; None if its entry has its own header.

        `remote` has its references resolved.
        """
        if remote.has_own_authorization:
            return None
        known, source = self._sources.get(server, (None, None))
        if source is None or known != remote:
            from discovery_engine.upstream.http.oauth.token_source import (  # noqa: PLC0415
                TokenSource,  # only remote servers need it
            )

            source = TokenSource(server, remote, self.store, clock=self._clock)
            self._sources[server] = remote, source
        return source
