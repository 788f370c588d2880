"""The logins of remote servers.

While there is no login anywhere, this costs a request one look at a file that is not there, and
no module of `oauth` is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.config.settings import RemoteTransport
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.errors import SecretStoreError
from discovery_engine.secrets.encrypted_store import EncryptedStore, Stamp
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.upstream.http.oauth.authorized_sender import AuthorizedSender


class ServerLogin:
    """The login of one server, shared by its sessions; there may be none yet."""

    def __init__(
        self,
        server: ServerName,
        remote: RemoteTransport,
        store: EncryptedStore,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.server = server
        self.remote = remote
        self._store = store
        self._clock = clock
        self._sender: AuthorizedSender | None = None

    @property
    def is_personal(self) -> bool:
        """True if a person can log in, with `discovery login`."""
        return self.remote.oauth.grant == "authorization_code"

    def sender(self) -> AuthorizedSender | None:
        """Return the sender of requests with a token; None while no token can be known."""
        if self._sender is None and (self.remote.oauth.is_given or self._store.stamp()):
            from discovery_engine.upstream.http.oauth.authorized_sender import (  # noqa: PLC0415
                AuthorizedSender,
                TokenSource,
            )

            tokens = TokenSource(self.server, self.remote, self._store, clock=self._clock)
            self._sender = AuthorizedSender(tokens)
        return self._sender


class Logins:
    def __init__(self, store: EncryptedStore, *, clock: Callable[[], float]) -> None:
        """`clock` gives Unix time in seconds."""
        self.store = store
        self._clock = clock
        self._logins: dict[ServerName, ServerLogin] = {}

    def stamp(self) -> Stamp:
        """Another one after every login and logout, also by another process."""
        return self.store.stamp()

    async def servers(self) -> frozenset[str]:
        """The servers that have a login; none if the store cannot be read."""
        if not self.stamp():
            return frozenset()
        from discovery_engine.upstream.http.oauth.stored_login import servers_in  # noqa: PLC0415

        try:
            return await anyio.to_thread.run_sync(servers_in, self.store)
        except SecretStoreError:
            return frozenset()

    def login_of(self, server: ServerName, remote: RemoteTransport) -> ServerLogin | None:
        """The login of a server; None if its entry has its own header, or is no secure address.

        `remote` has its references resolved.
        """
        if remote.has_own_authorization or not is_secure_address(remote.url):
            return None
        login = self._logins.get(server)
        if login is None or login.remote != remote:
            login = ServerLogin(server, remote, self.store, clock=self._clock)
            self._logins[server] = login
        return login
