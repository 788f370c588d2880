"""The owner's decisions as rows: a record has the columns of its table, in their order.

All that a registry holds is read as a `DecisionExport`, which another registry can be given.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

EVERY_SCOPE = "*"
"""A placeholder for all scopes; the name of a scope is an absolute path, or a word."""


class ApprovalRecord(Struct, frozen=True):
    scope: str
    server: str
    identity: str
    at: float
    number: int = 0
    """That of the decision; here and below the records of a table are in the order of theirs."""


class AcceptanceRecord(Struct, frozen=True):
    scope: str
    server: str
    tool: str
    meaning: str
    fingerprint: str
    definition: str
    at: float
    number: int = 0


class LossRecord(Struct, frozen=True):
    """Decisions of a scope were lost."""

    scope: str
    at: float
    acknowledged: float | None = None
    """The time at which its owner acknowledged it; tools are withheld until then."""
    number: int = 0


class RegistrationRecord(Struct, frozen=True):
    scope: str
    name: str
    content: str
    """`RegisteredServer.to_text` of the server."""
    number: int = 0


class SwitchRecord(Struct, frozen=True):
    scope: str
    server: str
    """The name under which the server is known."""
    is_wanted: bool
    at: float
    number: int = 0


class RulesRecord(Struct, frozen=True):
    """Rules of all who share the registry, before those of their files."""

    scope: str
    section: str
    """The key under which a file has such rules, for instance `toolRules`."""
    text: str
    """YAML, as the owner wrote it."""
    at: float
    number: int = 0


Record: TypeAlias = (
    ApprovalRecord | AcceptanceRecord | LossRecord | RegistrationRecord | SwitchRecord | RulesRecord
)


class DecisionExport(Struct, frozen=True):
    """Decisions of a registry, to be kept in another one, too."""

    number: int
    """The number of the newest decision."""
    records: tuple[Record, ...]
    marks: dict[str, str]
    """The marks of the registered servers, switches and rules, by scope."""
    after: int | None = None
    """All acceptances in `records` have a higher number; None if there are no others."""
    last: AcceptanceRecord | None = None
    """The newest acceptance that is left out."""

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes in which something was decided, or lost."""
        return frozenset(record.scope for record in self.records)
