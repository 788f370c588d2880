"""Decisions one by one, as they are made, and what stands once all of them are counted.

Both copies, the database and the journal, are read into a `Standing`, so that they can be compared
and either can be made from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct, field

from discovery_engine.trust.decisions import Acceptance, Approval

EVERY_SCOPE = "*"
"""In place of a scope's name; scopes are absolute paths, or a word."""


class Approved(Struct, frozen=True):
    scope: str
    approval: Approval
    at: float


class Revoked(Struct, frozen=True):
    """All approvals of a server."""

    scope: str
    server: str


class Accepted(Struct, frozen=True):
    scope: str
    acceptance: Acceptance
    at: float


class Loss(Struct, frozen=True):
    """Decisions of a scope were lost."""

    scope: str
    at: float
    acknowledged: float | None = None
    """When its owner took note of it; tools are held back until then."""


Record: TypeAlias = Approved | Revoked | Accepted | Loss


class Standing(Struct):
    """What all decisions so far come to; equal if the same holds, in whatever order."""

    approvals: dict[tuple[str, str, str], Approved] = field(default_factory=dict)
    acceptances: dict[tuple[str, str, str, str], Accepted] = field(default_factory=dict)
    """What was accepted last comes last."""
    losses: dict[str, Loss] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Standing:
        standing = cls()
        for record in records:
            standing.add(record)
        return standing

    def add(self, record: Record) -> None:
        match record:
            case Approved(scope, one):
                self.approvals.setdefault((scope, one.server, one.identity), record)
            case Revoked(scope, server):
                gone = [key for key in self.approvals if key[:2] == (scope, server)]
                for key in gone:
                    del self.approvals[key]
            case Accepted(scope, one):
                accepted = scope, one.server, one.tool, one.meaning
                self.acceptances.pop(accepted, None)
                self.acceptances[accepted] = record
            case Loss(scope):
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
        """When decisions of a scope were lost; None if none were, or its owner knows."""
        loss = self.losses.get(scope) or self.losses.get(EVERY_SCOPE)
        return loss.at if loss and loss.acknowledged is None else None
