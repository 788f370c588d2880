"""Tokens in a file of this machine, and tokens that all gateways of a database share.

The file is read again when it has changed, so what another process creates or revokes takes effect
at the next request. Shared tokens have a copy in a file, for a start while the database does not
answer; a gateway that runs has them in memory.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import anyio
import anyio.to_thread
import msgspec

from discovery_engine._util.digests import blake2b
from discovery_engine._util.file_lock import open_locked
from discovery_engine._util.files import replace_file
from discovery_engine.config.files.location import decision_scope
from discovery_engine.errors import ConfigurationError, RegistryError
from discovery_server.access_token import START_OVER, AccessToken, decode_tokens, encode_tokens
from discovery_server.token_files import (
    NO_LINKS,
    PRIVATE,
    is_foreign,
    is_readable_by_others,
    is_writable_by_others,
    read_file,
    reason_of,
    token_problem,
)

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.store.postgres_gateways import PostgresGateways

logger = logging.getLogger(__name__)

TokenChange: TypeAlias = Callable[[tuple[AccessToken, ...]], tuple[AccessToken, ...]]
"""A function that returns the tokens to store, given the stored ones; it may raise instead."""

_MAX_STORED_TOKENS_BYTES = 1 << 20  # bytes
_TOKENS_LOCK_TIMEOUT = 10.0  # seconds for another process that is writing


class StoredTokens:
    """The tokens in one file; opening reads nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: object = None
        self._read: tuple[AccessToken, ...] = ()

    def all(self) -> tuple[AccessToken, ...]:
        """Every token, expired ones too, in the order in which they were created.

        Raises:
            ConfigurationError: If the file cannot be read, or others may have written it.
        """
        try:
            data, status = read_file(self.path, NO_LINKS, most=_MAX_STORED_TOKENS_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            reason = "is a symbolic link" if is_link else f"cannot be read: {reason_of(error)}"
            raise token_problem(self.path, reason, START_OVER) from error
        if is_foreign(status, self.path) or is_writable_by_others(status):
            message = "may have been written by another user"
            raise token_problem(self.path, message, START_OVER)
        if is_readable_by_others(status):
            self.path.chmod(PRIVATE)
        return decode_tokens(data, self.path)

    def change(self, change: TokenChange) -> None:
        """Store what `change` makes of the tokens, while no other process writes.

        Raises:
            ConfigurationError: If the file cannot be read or written.
        """
        with self._writing():
            self.replace(change(self.all()))

    def replace(self, tokens: tuple[AccessToken, ...]) -> None:
        """Store these, whatever is stored.

        Raises:
            ConfigurationError: If the file cannot be written.
        """
        content = msgspec.json.format(encode_tokens(*tokens), indent=1)
        try:
            replace_file(self.path, content, follows_link=False)
            self.path.chmod(PRIVATE)
        except OSError as error:
            raise token_problem(self.path, f"cannot be written: {reason_of(error)}") from error

    def current(self) -> tuple[AccessToken, ...]:
        """Return the tokens in the file now; none if it cannot be used, which is logged once."""
        stamp = self._stamp_of_file()
        if stamp != self._stamp:
            try:
                self._read = self.all()
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, no token is valid
                self._read = ()
                logger.warning("No access token is valid: %s", error)
            for token in self._read:
                if token.is_damaged:
                    hint = f"`discovery token revoke {token.id}` removes it"
                    logger.warning(
                        "A token in %s is damaged, and opens nothing; %s", self.path, hint
                    )
            self._stamp = stamp
        return self._read

    def _stamp_of_file(self) -> object:
        try:
            status = os.stat(self.path)  # noqa: PTH116 - 2 us instead of 5, at every request
        except OSError:
            return None
        # A file of the same time is another one if it was replaced.
        return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size, status.st_mode

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """While no other process writes."""
        lock = self.path.with_suffix(".lock")
        try:
            descriptor = open_locked(lock, at_most=_TOKENS_LOCK_TIMEOUT)
        except BlockingIOError:
            raise token_problem(self.path, "is being written for too long") from None
        except OSError as error:
            raise token_problem(lock, f"cannot be opened: {reason_of(error)}") from error
        try:
            yield
        finally:
            os.close(descriptor)


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
        return cls(store, decision_scope(settings), folder)

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
