"""Tokens that are valid at all gateways of a database, and a copy of them on this machine.

The copy is for a start while the database does not answer; a gateway that runs has them in memory.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import anyio
import anyio.to_thread

from discovery_engine._util.digests import blake2b
from discovery_engine.config.files.location import decision_scopes
from discovery_engine.errors import ConfigurationError, RegistryError
from discovery_server.access_token import AccessToken, decode_tokens, encode_tokens
from discovery_server.stored_tokens import StoredTokens, TokenChange

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.store.postgres.postgres_gateways import PostgresGateways

logger = logging.getLogger(__name__)

_SCOPE_NAME_PREFIX = "name:"
_LOOK_EVERY = 15.0  # seconds between two looks, should no notification of the database arrive


class SharedTokens:
    """The tokens of one configuration; opening reads nothing.

    Args:
        store: Where they are.
        scope: The configuration.
        folder: The folder of the copy.
    """

    def __init__(self, store: PostgresGateways, scope: str, folder: Path) -> None:
        self._store = store
        self._scope = scope
        place = blake2b(f"{store.name}\n{scope}".encode(), digest_size=8).hexdigest()
        self._copy = StoredTokens(folder / f"shared-tokens-{place}.json")
        self.known: tuple[AccessToken, ...] = ()
        """The tokens as they were when they were last read."""

    @classmethod
    def of_settings(cls, settings: Settings, store: PostgresGateways, folder: Path) -> SharedTokens:
        """Return the tokens of the configuration with these settings."""
        return cls(store, decision_scopes(settings.path, settings.name)[0], folder)

    def all(self) -> tuple[AccessToken, ...]:
        """Return every token, expired ones too; see `StoredTokens.all`.

        Raises:
            RegistryError: If the database does not answer.
        """
        tokens = map(self._decoded, self._store.access_tokens(self._scope))
        return tuple(token for token in tokens if token)

    def names_elsewhere(self) -> list[str]:
        """Other configurations that have tokens, by their names or paths, if this one has none.

        One that got another name is another one.

        Raises:
            RegistryError: If the database does not answer.
        """
        scopes = self._store.token_scopes()
        return (
            []
            if self._scope in scopes
            else sorted(scope.removeprefix(_SCOPE_NAME_PREFIX) for scope in scopes)
        )

    def change(self, change: TokenChange) -> None:
        """Store what `change` makes of the tokens; see `StoredTokens.change`.

        Tokens that newer versions have stored stay.

        Raises:
            RegistryError: If the database does not answer.
        """

        def changed(documents: tuple[str, ...]) -> tuple[str, ...]:
            tokens = {document: self._decoded(document) for document in documents}
            documents_by_token = {token: document for document, token in tokens.items() if token}
            new_documents = [
                documents_by_token.get(token) or encode_tokens(token).decode()
                for token in change(tuple(documents_by_token))
            ]
            return (*(document for document, token in tokens.items() if not token), *new_documents)

        self._store.change_access_tokens(self._scope, changed)

    async def prepare(self) -> None:
        """Know them as the database has them, or else as it last had them."""
        self.known = self._copy.current()
        await self._read()

    async def follow(self) -> NoReturn:
        """Know them from now on soon after each change."""
        while True:
            changed = self._store.changed
            await self._read()
            with anyio.move_on_after(_LOOK_EVERY):
                await changed.wait()

    async def _read(self) -> None:
        try:
            tokens = await anyio.to_thread.run_sync(self.all)
        except RegistryError as error:  # the outage itself is logged once, where it is noticed
            logger.debug("The tokens of the gateways are as they were: %s", error)
            return
        self.known = tokens
        if tokens != self._copy.current():
            try:
                await anyio.to_thread.run_sync(self._copy.replace, tokens)
            except ConfigurationError as error:
                logger.warning("A start without the database would lack tokens: %s", error)

    def _decoded(self, document: str) -> AccessToken | None:
        try:
            [token] = decode_tokens(document, "the registry")
        except (ConfigurationError, ValueError) as error:
            logger.warning("An access token is not valid here: %s", error)
            return None
        return token
