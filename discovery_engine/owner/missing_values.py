"""Values that the entry of a server refers to and nothing gives: the owner gives them, as secrets.

A variable becomes a stored secret of that server, for what reads it cannot be set from here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec.structs import replace

from discovery_engine.config.settings import ServerSettings
from discovery_engine.owner.literal_secrets import StoredLiterals
from discovery_engine.secrets.references import (
    Reference,
    is_secret_name,
    references_in,
    with_addresses,
)
from discovery_engine.secrets.resolver import SecretResolver, has_value
from discovery_engine.secrets.stored_values import SecretText
from discovery_engine.upstream.connection import with_fields, written_fields


def missing_values(server: ServerSettings, secrets: SecretResolver) -> dict[str, str]:
    """The variables and secrets without a value, as `Reference.address` writes them.

    Each has the first place in the entry that refers to it, for instance `env.TOKEN`.
    """
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    missing: dict[str, str] = {}
    for place, text in written_fields(server.transport).items():
        for one in references_in(text):
            if _can_be_given(one, server) and not has_value(
                one.address, secrets, base_dir=base_dir, server=server.secret_owner
            ):
                missing.setdefault(one.address, place)
    return missing


def with_values(server: ServerSettings, values: Mapping[str, str]) -> StoredLiterals:
    """The entry that refers to stored secrets for these values, which are by their addresses."""
    if server.transport is None:
        return StoredLiterals(server)
    names = {address: _secret_name(server, address) for address in values}
    addresses = {address: f"secret:{name}" for address, name in names.items()}
    fields = {
        place: with_addresses(text, addresses)
        for place, text in written_fields(server.transport).items()
    }
    stored = {names[address]: SecretText(value) for address, value in values.items()}
    return StoredLiterals(replace(server, transport=with_fields(server.transport, fields)), stored)


def _can_be_given(reference: Reference, server: ServerSettings) -> bool:
    is_plain = reference.kind == "variable" and reference.default is None
    is_own_secret = reference.kind == "secret" and reference.owner in ("", server.secret_owner)
    return is_plain or is_own_secret


def _secret_name(server: ServerSettings, address: str) -> str:
    if address.startswith("secret:"):
        return address.removeprefix("secret:")
    name = f"{server.secret_owner}/{address}"
    return name if is_secret_name(name) else address
