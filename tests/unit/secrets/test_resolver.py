from __future__ import annotations

from collections.abc import Mapping

import pytest

from discovery_engine.secrets.references import Reference, UnsetReference
from discovery_engine.secrets.resolver import has_value, resolve


class Vault:
    """A secret store beside environment and files."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def value(self, reference: Reference, *, base_dir: str | None) -> str:
        if reference.name in self._values:
            return self._values[reference.name]
        raise UnsetReference(reference.name, "is not in the vault")


@pytest.mark.requirement("CFG-20")
def test_what_any_store_returns_is_a_value_and_no_reference() -> None:
    vault = Vault({"A": "${B}", "B": "secret", "path": "${file:x}"})

    assert resolve("<${A}> <${file:path}>", vault) == "<${B}> <${file:x}>"


def test_a_reference_that_a_store_does_not_know_has_no_value() -> None:
    vault = Vault({"A": "1"})

    assert has_value("A", vault)
    assert not has_value("B", vault)
    with pytest.raises(UnsetReference, match="not in the vault"):
        resolve("${A}${B}", vault)
