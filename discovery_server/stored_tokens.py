"""Tokens in a file of this machine, which is read again when it has changed.

So what another process creates or revokes takes effect at the next request.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from discovery_engine._util.file_lock import open_locked
from discovery_engine._util.files import replace_file
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

logger = logging.getLogger(__name__)

TokenChange: TypeAlias = Callable[[tuple[AccessToken, ...]], tuple[AccessToken, ...]]
"""A function that returns the tokens to store, given the stored ones; it may raise instead."""

_MAX_STORED_TOKENS_BYTES = 1 << 20  # bytes
_WAIT = 10.0  # seconds for another process that is writing


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
            descriptor = open_locked(lock, at_most=_WAIT)
        except BlockingIOError:
            raise token_problem(self.path, "is being written for too long") from None
        except OSError as error:
            raise token_problem(lock, f"cannot be opened: {reason_of(error)}") from error
        try:
            yield
        finally:
            os.close(descriptor)
