"""Decisions of owners in memory: approvals, acceptances, and servers that stand in no file.

`registry.protocols` has their contracts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from discovery_engine.registry.records import (
    AcceptanceRecord,
    ApprovalRecord,
    EffectiveDecisions,
    LossRecord,
    Record,
    RegistrationRecord,
    RevocationRecord,
    SwitchRecord,
    UnregistrationRecord,
)
from discovery_engine.registry.server_records import ServerSwitch
from discovery_engine.trust.decisions import Decisions, with_accepted

if TYPE_CHECKING:
    from discovery_engine.registry.server_records import RegisteredServer
    from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval


class MemoryDecisions:
    """The part of `MemoryRegistry` that holds decisions; starts with those that are `known`."""

    _turn: threading.RLock

    def __init__(self, known: EffectiveDecisions) -> None:
        self._decided = known
        self._number = len(known)
        self._server_marks = dict.fromkeys(known.scopes, "known")

    def decisions(self, scope: str) -> Decisions:
        with self._turn:
            approvals: dict[str, frozenset[str]] = {}
            for name, server, identity in self._decided.approvals:
                if name == scope:
                    approvals[server] = approvals.get(server, frozenset()) | {identity}
            decisions = Decisions(approvals, lost_at=self._decided.lost_at(scope))
            return with_accepted(decisions, self._accepted(scope))

    def newest_decision(self) -> int:
        return self._number

    def approvals(self, scope: str) -> Mapping[str, frozenset[str]]:
        return self.decisions(scope).approvals

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        return self.decisions(scope).accepted.get(server, {})

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        with self._turn:
            for one in approvals:
                self._decide(ApprovalRecord(scope, one, at))

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        with self._turn:
            before = len(self._decided.approvals)
            for server in servers:
                self._decide(RevocationRecord(scope, server))
            return before - len(self._decided.approvals)

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        with self._turn:
            before = self._number
            known = self._accepted(scope) if if_new else ()
            taken = {(one.server, one.tool) for one in known}
            for one in found:
                if (one.server, one.tool) not in taken:
                    self._decide(AcceptanceRecord(scope, one, at))
            return self._number - before

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return tuple(one for one in self._accepted(scope) if one.server == server)

    def lost_at(self, scope: str) -> float | None:
        return self._decided.lost_at(scope)

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        with self._turn:
            if (lost := self._decided.lost_at(scope)) is not None:
                self._decide(LossRecord(scope, lost, at))

    def servers_mark(self, scope: str) -> str:
        return self._server_marks.get(scope, "")

    def registered_servers(self, scope: str) -> tuple[RegisteredServer, ...]:
        with self._turn:
            kept = self._decided.servers.items()
            return tuple(record.server for (of, _), record in kept if of == scope)

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:
        self._decide_servers(scope, [RegistrationRecord(scope, one) for one in servers])

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:
        gone = [name for name in dict.fromkeys(names) if (scope, name) in self._decided.servers]
        self._decide_servers(scope, [UnregistrationRecord(scope, name) for name in gone])
        return len(gone)

    def switches(self, scope: str) -> Mapping[str, ServerSwitch]:
        with self._turn:
            kept = self._decided.switches.items()
            return {
                server: ServerSwitch(bool(record.is_wanted), record.at)
                for (of, server), record in kept
                if of == scope
            }

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:
        known = self.switches(scope)
        records = [
            SwitchRecord(scope, server, is_wanted, at)
            for server, is_wanted in wanted.items()
            if is_wanted is not (known[server].is_wanted if server in known else None)
        ]
        self._decide_servers(scope, records)

    def _decide(self, record: Record) -> None:
        self._decided.add(record)
        self._number += 1

    def _decide_servers(self, scope: str, records: Sequence[Record]) -> None:
        with self._turn:
            for record in records:
                self._decide(record)
            if records:
                self._server_marks[scope] = str(self._number)

    def _accepted(self, scope: str) -> tuple[Acceptance, ...]:
        """What was accepted last comes last."""
        kept = self._decided.acceptances.values()
        return tuple(record.acceptance for record in kept if record.scope == scope)
