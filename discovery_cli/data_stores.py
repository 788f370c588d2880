"""The call log and secrets of a run: read without an engine or a valid configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_cli.invocation import Invocation
    from discovery_engine.secrets.owner_secrets import OwnerSecrets
    from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver
    from discovery_engine.store.call_log.log_database import LogDatabase
    from discovery_engine.store.call_log.log_reader import LogReader


def log_reader(invocation: Invocation) -> LogReader:
    """Reads what is logged of the configuration of this run."""
    from discovery_engine.store.call_log.log_reader import LogReader

    return LogReader(*_log_place(invocation))


def log_database(invocation: Invocation) -> LogDatabase:
    """Changes what is logged of the configuration of this run."""
    from discovery_engine.store.call_log.log_database import LogDatabase

    return LogDatabase(*_log_place(invocation))


def _log_place(invocation: Invocation) -> tuple[Path, str]:
    from discovery_engine.config.files.location import locate, scope_of
    from discovery_engine.engine.restore import registry_path

    folder = registry_path(invocation.data_dir, os.environ).parent
    return folder, scope_of(locate(invocation.config).path)


def owner_secrets(invocation: Invocation) -> OwnerSecrets:
    from discovery_engine.secrets.encrypted_store import EncryptedStore
    from discovery_engine.secrets.owner_secrets import OwnerSecrets

    return OwnerSecrets(EncryptedStore(_folder(invocation), os.environ))


def stored_values(invocation: Invocation) -> StoredSecretResolver:
    """The values of references, of stored secrets too; these are decrypted when one is needed."""
    from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver

    return StoredSecretResolver(os.environ, _folder(invocation))


def _folder(invocation: Invocation) -> Path:
    from discovery_engine.engine.restore import registry_path

    return registry_path(invocation.data_dir, os.environ).parent
