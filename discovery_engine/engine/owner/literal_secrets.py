"""Secrets that stand in the entry of a new server: each is to be stored, and referred to."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from discovery_engine.config.editing.import_plan import (
    NOT_STORABLE,
    SkippedServer,
    import_entry,
)
from discovery_engine.config.settings import ServerSettings
from discovery_engine.secrets.stored_values import SecretText


class StoredLiterals(Struct, frozen=True):
    """An entry with `${secret:SERVER/NAME}` in place of each secret that stood in it."""

    server: ServerSettings
    values: Mapping[str, SecretText] = {}
    """By the names under which they are to be stored."""
    problem: str = ""
    """Why the entry cannot be used: it has a secret where no reference to a stored one helps."""


def store_literals(server: ServerSettings) -> StoredLiterals:
    """Return a new server as it is once its secrets are stored; nothing is stored here."""
    as_it_is = import_entry(server)
    if isinstance(as_it_is, SkippedServer):
        return StoredLiterals(server, problem=as_it_is.reason if as_it_is.is_secret else "")
    candidate = import_entry(server, is_stored=True)
    if isinstance(candidate, SkippedServer) or candidate.variables:
        return StoredLiterals(server, problem=NOT_STORABLE)
    return StoredLiterals(candidate.server, candidate.secrets)
