"""The protocol of a store of secrets: get, set, delete and list by name.

A name is a path: `oauth/SERVER/…` is a login. Names are not secret. Methods block, so they are
called in threads; a caller that reads a secret makes it known to the redaction.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

Stamp: TypeAlias = tuple[int, ...]
"""A version of the stored secrets: it differs after every change, also by another process."""


class SecretStore(Protocol):
    def get(self, name: str) -> str | None:
        """The secret of that name; None if there is none.

        Raises:
            SecretStoreError: If it cannot be read or decrypted; nothing is changed then.
        """

    def set(self, name: str, value: str) -> None:
        """Store a secret.

        Raises:
            SecretStoreError: If it cannot be stored; what was stored before is unchanged.
        """

    def delete(self, name: str) -> bool:
        """Delete a secret; returns whether there was one.

        Raises:
            SecretStoreError: As `set`.
        """

    def require_usable(self) -> None:
        """Check that a secret could be stored now.

        Raises:
            SecretStoreError: If it could not be.
        """

    def names(self) -> tuple[str, ...]:
        """The names of all secrets, in order; needs no key.

        Raises:
            SecretStoreError: If they cannot be read.
        """

    def stamp(self) -> Stamp:
        """Cheap enough for every request: the metadata of one file."""

    def try_lock(self, name: str) -> AbstractContextManager[bool]:
        """Lock a name among processes if it is free; gives whether it is locked now."""
