"""The secret store of the data folder that a command uses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_cli.invocation import Invocation
    from discovery_engine.secret_store.owner_secrets import OwnerSecrets
    from discovery_engine.secret_store.stored_secret_resolver import StoredSecretResolver


def owner_secrets(invocation: Invocation) -> OwnerSecrets:
    from discovery_engine.secret_store.encrypted_store import EncryptedStore
    from discovery_engine.secret_store.owner_secrets import OwnerSecrets

    return OwnerSecrets(EncryptedStore(_folder(invocation), os.environ))


def stored_values(invocation: Invocation) -> StoredSecretResolver:
    """The values of references, of stored secrets too; these are decrypted when one is needed."""
    from discovery_engine.secret_store.stored_secret_resolver import StoredSecretResolver

    return StoredSecretResolver(os.environ, _folder(invocation))


def _folder(invocation: Invocation) -> Path:
    from discovery_engine.runtime.restore import registry_path

    return registry_path(invocation.data_dir, os.environ).parent
