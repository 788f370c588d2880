"""Values of references: variables, files, and the secrets that are stored in the data folder."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine.errors import SecretStoreError
from discovery_engine.secrets.references import Reference, UnsetReference
from discovery_engine.secrets.resolver import EnvironmentResolver

if TYPE_CHECKING:
    from discovery_engine.secrets.encrypted_store import Stamp
    from discovery_engine.secrets.owner_secrets import OwnerSecrets


class StoredSecretResolver(EnvironmentResolver):
    """Costs nothing, and loads nothing, until a `${secret:NAME}` is resolved."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        """`folder` is the data folder."""
        super().__init__(environ)
        self._folder = folder
        self._read: dict[str, str | None] = {}
        self._read_at: Stamp | None = None
        self._lock = threading.Lock()

    def value(self, reference: Reference, *, base_dir: str | None) -> str:
        if reference.kind != "secret":
            return super().value(reference, base_dir=base_dir)
        try:
            secret = self._stored(reference.name)
        except SecretStoreError as error:
            reason = "cannot be read; `discovery doctor` says why"
            raise UnsetReference(reference.address, reason) from error
        if secret is None:
            raise UnsetReference(reference.address, "is not stored")
        return secret

    def _stored(self, name: str) -> str | None:
        """The secret; an entry is resolved several times at each connect, and decrypted once."""
        with self._lock:  # several threads redact what their servers write
            if (stamp := self._secrets.stamp()) != self._read_at:
                self._read, self._read_at = {}, stamp
            if name not in self._read:
                self._read[name] = self._secrets.get(name)
            return self._read[name]

    @cached_property
    def _secrets(self) -> OwnerSecrets:
        from discovery_engine.secrets.encrypted_store import EncryptedStore  # noqa: PLC0415
        from discovery_engine.secrets.owner_secrets import OwnerSecrets  # noqa: PLC0415

        return OwnerSecrets(EncryptedStore(self._folder, self._environ))
