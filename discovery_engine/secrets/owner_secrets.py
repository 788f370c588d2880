"""The secrets that their owner stored, which `${secret:NAME}` refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from discovery_engine.errors import InvalidSecretError, SecretStoreError
from discovery_engine.secrets.encrypted_store import DamagedSecretError, EncryptedStore, Stamp
from discovery_engine.secrets.keys import KeyPlace
from discovery_engine.secrets.references import is_secret_name
from discovery_engine.secrets.stored_values import refusal_of

_NAMESPACE = "secret/"


class OwnerSecrets:
    """Set, list and delete secrets by name: `TOKEN`, or `SERVER/TOKEN` for one server alone.

    Methods block for milliseconds, or while the system's keyring asks a person for its password.
    """

    def __init__(self, store: EncryptedStore) -> None:
        self._store = store

    def set(self, name: str, value: str) -> None:
        """Store a secret, encrypted.

        Raises:
            InvalidSecretError: If the name or the value cannot be one.
            SecretStoreError: If it cannot be stored; what was stored before is unchanged.
        """
        if not is_secret_name(name):
            raise InvalidSecretError.name()
        if reason := refusal_of(value):
            hint = "a key of several lines can be kept in a file: `${file:path}`"
            lines = "contains" in reason
            raise InvalidSecretError(f"the value of {name} {reason}", hint=hint if lines else "")
        self._store.set(_NAMESPACE + name, value)

    def get(self, name: str) -> str | None:
        """The secret of that name; None if there is none.

        Raises:
            SecretStoreError: If it cannot be read or decrypted.
        """
        try:
            return self._store.get(_NAMESPACE + name)
        except DamagedSecretError as error:
            raise SecretStoreError(
                f"the stored secret {name} is damaged: it cannot be decrypted",
                hint=f"`discovery secrets set {name}` stores it again",
            ) from error

    @contextmanager
    def storing(self, values: Mapping[str, str]) -> Iterator[None]:
        """A block that writes what refers to these secrets, which are stored before it.

        If it fails, they are as they were before. Ended at any moment, it leaves no reference
        to a secret that is not stored.

        Raises:
            InvalidSecretError: If one cannot be a secret.
            SecretStoreError: If one cannot be stored.
        """
        names = set(self.names()) & values.keys()
        before = {name: self.get(name) for name in names}
        try:
            for name, value in values.items():
                self.set(name, value)
            yield
        except BaseException:
            for name in values:
                with suppress(SecretStoreError):  # the first error is the one to report
                    earlier = before.get(name)
                    self.delete(name) if earlier is None else self.set(name, earlier)
            raise

    def delete(self, name: str) -> bool:
        """Delete a secret; returns whether there was one.

        Raises:
            SecretStoreError: As `set`.
        """
        return self._store.delete(_NAMESPACE + name)

    def names(self) -> tuple[str, ...]:
        """Return the names of all secrets, sorted.

        Raises:
            SecretStoreError: If they cannot be read.
        """
        return tuple(
            name.removeprefix(_NAMESPACE)
            for name in self._store.names()
            if name.startswith(_NAMESPACE)
        )

    def rotate_key(self) -> KeyPlace | None:
        """Encrypt all that is stored, logins as well, with a new key; returns where that is kept.

        None if nothing is stored. Ended at any moment, either key opens what is stored then.

        Raises:
            SecretStoreError: If a secret cannot be decrypted; nothing is changed then.
        """
        return self._store.rotate_key()

    def key_place(self) -> KeyPlace:
        """Return the place of the key of the store, also if nothing is stored yet.

        Raises:
            SecretStoreError: If the store cannot be read.
        """
        return self._store.key_place() or self._store.planned_key_place()

    def stamp(self) -> Stamp:
        """Another one after every change, also by another process."""
        return self._store.stamp()
