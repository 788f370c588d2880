"""The secrets that their owner stored, which `${secret:NAME}` refers to."""

from __future__ import annotations

from discovery_engine.errors import InvalidSecretError, SecretStoreError
from discovery_engine.secret_store.encrypted_store import DamagedSecretError, EncryptedStore
from discovery_engine.secret_store.keys import KeyPlace
from discovery_engine.secret_store.store import Stamp
from discovery_engine.secrets.references import is_secret_name

_NAMESPACE = "secret/"
_LONGEST = 64 * 1024  # bytes, as of a file that a reference names
_REFUSED = {"\n": "a line break", "\r": "a carriage return", "\0": "a zero character"}


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
        if not value:
            raise InvalidSecretError(f"the value of {name} is empty")
        if found := next((text for one, text in _REFUSED.items() if one in value), ""):
            # It would end a header or an entry of an environment, and begin another.
            raise InvalidSecretError(
                f"the value of {name} contains {found}",
                hint="a key of several lines can be kept in a file: `${file:path}`",
            )
        if len(value.encode(errors="surrogatepass")) > _LONGEST:
            raise InvalidSecretError(f"the value of {name} has more than {_LONGEST // 1024} KiB")
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

    def delete(self, name: str) -> bool:
        """Delete a secret; returns whether there was one.

        Raises:
            SecretStoreError: As `set`.
        """
        return self._store.delete(_NAMESPACE + name)

    def names(self) -> tuple[str, ...]:
        """In order.

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

    def stamp(self) -> Stamp:
        """Another one after every change, also by another process."""
        return self._store.stamp()
