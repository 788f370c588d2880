"""The stored part of a login: the tokens, and where they may be sent.

A login belongs to the address and the client of one entry. Its name in the secret store contains
a digest of these, so that an entry with another address finds no login.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec
from msgspec import Struct

from discovery_engine.config.settings import RemoteTransport
from discovery_engine.errors import SecretStoreError
from discovery_engine.secrets.encrypted_store import EncryptedStore
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName

AuthMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]

_NAMESPACE = "oauth"
_LOCK_PAUSE = 0.02  # seconds between two tries of a lock that another process holds
_LONGEST_WAIT = 45.0  # seconds; a refresh takes 20 at most


class StoredLogin(Struct, frozen=True, omit_defaults=True):
    address: str
    """The address of the server that the tokens are for, without user, query and fragment."""
    resource: str
    """The resource indicator (RFC 8707) that they were requested with."""
    issuer: str
    token_endpoint: str
    client_id: str
    client_secret: str = ""
    """Only of a client that was registered for this login; never one of the configuration."""
    auth_method: AuthMethod = "none"
    revocation_endpoint: str = ""
    access_token: str = ""
    """Empty once the authorization server has ended the login."""
    refresh_token: str = ""
    obtained_at: float = 0.0
    """Unix time in seconds."""
    expires_at: float | None = None
    """Unix time in seconds; None if the server gave none."""
    scope: str = ""
    wanted_scope: str = ""
    """Scopes that a request lacked; the next login asks for them, too."""

    def __repr__(self) -> str:
        return f"StoredLogin({self.address!r}, {len(self.secrets)} secrets hidden)"

    @property
    def secrets(self) -> tuple[str, ...]:
        values = (self.access_token, self.refresh_token, self.client_secret)
        return tuple(filter(None, values))

    def make_known(self) -> None:
        """Redact its secrets from now on."""
        KNOWN_SECRETS.add_tokens(self.secrets)


def load_login(store: EncryptedStore, name: str) -> StoredLogin | None:
    """The login of that name, whose secrets are redacted from now on.

    Raises:
        SecretStoreError: If it cannot be read.
    """
    text = store.get(name)
    if text is None:
        return None
    try:
        login = msgspec.json.decode(text, type=StoredLogin)
    except msgspec.MsgspecError as error:
        raise SecretStoreError(f"the stored login {name!r} cannot be read") from error
    login.make_known()
    return login


def save_login(store: EncryptedStore, name: str, login: StoredLogin) -> None:
    """Store a login.

    Raises:
        SecretStoreError: If it cannot be stored.
    """
    login.make_known()
    store.set(name, msgspec.json.encode(login).decode())


@asynccontextmanager
async def exclusively(store: EncryptedStore, name: str) -> AsyncIterator[None]:
    """A block that one task of one process at a time runs for a login.

    Every change of a login is made in one: a refresh must neither overwrite a newer login, nor
    store again what was deleted meanwhile.

    Raises:
        SecretStoreError: If it cannot be locked.
    """
    deadline = anyio.current_time() + _LONGEST_WAIT
    while anyio.current_time() < deadline:
        with store.try_lock(name) as is_held:
            if is_held:
                yield
                return
        await anyio.sleep(_LOCK_PAUSE)
    raise SecretStoreError(
        "another process has been changing the login for too long",
        hint="end other processes of discovery that do not react, and try again",
    )


def login_name(server: ServerName, remote: RemoteTransport) -> str:
    """The name of a login in the store; `remote` has its references resolved."""
    oauth = remote.oauth
    what = (address_of(remote.url), oauth.grant, oauth.client_id, oauth.auth_server_metadata_url)
    digest = hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]
    return f"{_NAMESPACE}/{server}/{digest}"


def names_of(store: EncryptedStore, server: str) -> tuple[str, ...]:
    """The names of all logins of a server, also of an earlier address."""
    return tuple(name for name in store.names() if name.startswith(f"{_NAMESPACE}/{server}/"))


def servers_in(store: EncryptedStore) -> frozenset[str]:
    """The servers that have a login."""
    parts = (name.split("/") for name in store.names())
    return frozenset(part[1] for part in parts if part[0] == _NAMESPACE and len(part) > 1)


def address_of(url: str) -> str:
    """A server's address as tokens are bound to it: user and query may be secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return urlunsplit((parts.scheme.lower(), host, parts.path, "", ""))
