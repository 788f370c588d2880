"""Decisions one by one, as they are made, and those that are in effect after all of them.

Both copies, the database and the journal, are read into `EffectiveDecisions`, so that they can be
compared and either can be made from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct, field

from discovery_engine.trust.decisions import Acceptance, Approval

EVERY_SCOPE = "*"
"""In place of a scope's name; scopes are absolute paths, or a word."""


class ApprovalRecord(Struct, frozen=True):
    scope: str
    approval: Approval
    at: float


class RevocationRecord(Struct, frozen=True):
    """All approvals of a server."""

    scope: str
    server: str


class AcceptanceRecord(Struct, frozen=True):
    scope: str
    acceptance: Acceptance
    at: float


class LossRecord(Struct, frozen=True):
    """Decisions of a scope were lost."""

    scope: str
    at: float
    acknowledged: float | None = None
    """When its owner acknowledged it; tools are withheld until then."""


Record: TypeAlias = ApprovalRecord | RevocationRecord | AcceptanceRecord | LossRecord


class EffectiveDecisions(Struct):
    """What is in effect after all decisions so far; equal whatever their order was."""

    approvals: dict[tuple[str, str, str], ApprovalRecord] = field(default_factory=dict)
    acceptances: dict[tuple[str, str, str, str], AcceptanceRecord] = field(default_factory=dict)
    """What was accepted last comes last."""
    losses: dict[str, LossRecord] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> EffectiveDecisions:
        effective = cls()
        for record in records:
            effective.add(record)
        return effective

    def add(self, record: Record) -> None:
        match record:
            case ApprovalRecord(scope, one):
                self.approvals.setdefault((scope, one.server, one.identity), record)
            case RevocationRecord(scope, server):
                gone = [key for key in self.approvals if key[:2] == (scope, server)]
                for key in gone:
                    del self.approvals[key]
            case AcceptanceRecord(scope, one):
                accepted = scope, one.server, one.tool, one.meaning
                self.acceptances.pop(accepted, None)
                self.acceptances[accepted] = record
            case LossRecord(scope):
                if scope == EVERY_SCOPE and record.acknowledged is None:
                    self.losses.clear()
                self.losses[scope] = record

    def __iter__(self) -> Iterator[Record]:
        """The fewest records that come to the same."""
        yield from self.approvals.values()
        yield from self.acceptances.values()
        yield from sorted(self.losses.values(), key=lambda loss: loss.scope != EVERY_SCOPE)

    def __len__(self) -> int:
        return len(self.approvals) + len(self.acceptances) + len(self.losses)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes in which something was decided."""
        return frozenset(key[0] for key in (*self.approvals, *self.acceptances))

    def lost_at(self, scope: str) -> float | None:
        """When decisions of a scope were lost; None if none were, or the owner acknowledged it."""
        loss = self.losses.get(scope) or self.losses.get(EVERY_SCOPE)
        return loss.at if loss and loss.acknowledged is None else None
