"""Decisions one by one, as they are made, and those that are in effect after all of them.

All that a registry holds is read into `EffectiveDecisions`, so that two can be compared, and either
can be made from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from discovery_engine.trust.decisions import Acceptance, Approval

if TYPE_CHECKING:
    from discovery_engine.registry.server_records import RegisteredServer

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


class RegistrationRecord(Struct, frozen=True):
    """A server is registered, in the place of one that has its name."""

    scope: str
    server: RegisteredServer


class UnregistrationRecord(Struct, frozen=True):
    scope: str
    server: str
    """The name in the registry."""


class SwitchRecord(Struct, frozen=True):
    scope: str
    server: str
    """The name under which the server is known."""
    is_wanted: bool | None
    """None drops the switch: what the server's entry says is in effect."""
    at: float


ServerRecord: TypeAlias = RegistrationRecord | UnregistrationRecord | SwitchRecord
Record: TypeAlias = ApprovalRecord | RevocationRecord | AcceptanceRecord | LossRecord | ServerRecord


class EffectiveDecisions(Struct):
    """The decisions in effect after all records so far; equal whatever the order of the records."""

    approvals: dict[tuple[str, str, str], ApprovalRecord] = field(default_factory=dict)
    acceptances: dict[tuple[str, str, str, str], AcceptanceRecord] = field(default_factory=dict)
    """The newest acceptance comes last."""
    losses: dict[str, LossRecord] = field(default_factory=dict)
    servers: dict[tuple[str, str], RegistrationRecord] = field(default_factory=dict)
    switches: dict[tuple[str, str], SwitchRecord] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> EffectiveDecisions:
        effective = cls()
        for record in records:
            effective.add(record)
        return effective

    def add(self, record: Record) -> None:
        match record:
            case ApprovalRecord(scope, decision):
                self.approvals.setdefault((scope, decision.server, decision.identity), record)
            case RevocationRecord(scope, server):
                gone = [key for key in self.approvals if key[:2] == (scope, server)]
                for key in gone:
                    del self.approvals[key]
            case AcceptanceRecord(scope, decision):
                accepted = scope, decision.server, decision.tool, decision.meaning
                self.acceptances.pop(accepted, None)
                self.acceptances[accepted] = record
            case LossRecord(scope):
                if scope == EVERY_SCOPE and record.acknowledged is None:
                    self.losses.clear()
                self.losses[scope] = record
            case RegistrationRecord() | UnregistrationRecord() | SwitchRecord():
                self._add_of_server(record)

    def _add_of_server(self, record: ServerRecord) -> None:
        match record:
            case RegistrationRecord(scope, server):
                self.servers[scope, server.name] = record
            case UnregistrationRecord(scope, name):
                self.servers.pop((scope, name), None)
            case SwitchRecord(scope, server, is_wanted):
                if is_wanted is None:
                    self.switches.pop((scope, server), None)
                else:
                    self.switches[scope, server] = record

    def __iter__(self) -> Iterator[Record]:
        """The fewest records that come to the same."""
        yield from self.approvals.values()
        yield from self.acceptances.values()
        yield from sorted(self.losses.values(), key=lambda loss: loss.scope != EVERY_SCOPE)
        yield from self.servers.values()
        yield from self.switches.values()

    def __len__(self) -> int:
        trust = len(self.approvals) + len(self.acceptances) + len(self.losses)
        return trust + len(self.servers) + len(self.switches)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes in which something was decided."""
        decided = *self.approvals, *self.acceptances, *self.servers, *self.switches
        return frozenset(key[0] for key in decided)

    def lost_at(self, scope: str) -> float | None:
        """When decisions of a scope were lost; None if none were, or the owner acknowledged it."""
        loss = self.losses.get(scope) or self.losses.get(EVERY_SCOPE)
        return loss.at if loss and loss.acknowledged is None else None


def records_between(before: EffectiveDecisions, after: EffectiveDecisions) -> Iterator[Record]:
    """The records by which one comes of the other; all acceptances of `after` are new."""
    past, present = before.approvals, after.approvals
    revoked = {key[:2] for key, approval in past.items() if present.get(key) != approval}
    yield from (RevocationRecord(*server) for server in sorted(revoked))
    for approved, approval in present.items():
        if approved not in past or approved[:2] in revoked:
            yield approval
    yield from after.acceptances.values()
    for loss in sorted(after.losses.values(), key=lambda loss: loss.scope != EVERY_SCOPE):
        if before.losses.get(loss.scope) != loss:
            yield loss
    yield from (UnregistrationRecord(*key) for key in before.servers.keys() - after.servers.keys())
    yield from (
        record for key, record in after.servers.items() if before.servers.get(key) != record
    )
    for key in before.switches.keys() - after.switches.keys():
        yield SwitchRecord(*key, is_wanted=None, at=before.switches[key].at)
    yield from (
        record for key, record in after.switches.items() if before.switches.get(key) != record
    )


class DecisionExport(Struct, frozen=True):
    """All decisions of a registry, to be kept in another one, too."""

    number: int
    """The number of the newest decision."""
    effective: EffectiveDecisions
    marks: dict[str, str]
    """The marks of the registered servers and switches, by scope."""


class NewerDecisions(Struct, frozen=True):
    """The decisions of a registry since a number, for a registry that has all earlier ones."""

    since: int
    last: AcceptanceRecord | None
    """The newest acceptance that is no newer; None if there is none."""
    export: DecisionExport
    """All decisions but the acceptances that are no newer."""
