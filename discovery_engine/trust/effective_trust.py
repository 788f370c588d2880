"""The permissions of a configuration's servers and tools, all decisions taken together.

Both judges of it, the gate before a connection and the verdicts of the catalog, ask the same
value, so that what is not started is not found either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from discovery_engine.trust import scanner
from discovery_engine.trust.decisions import (
    INSTRUCTIONS,
    UNREADABLE,
    Acceptance,
    AcceptedTools,
    Decisions,
)
from discovery_engine.trust.server_admission import Denial, refusal
from discovery_engine.trust.server_identity import Identity, known_as
from discovery_engine.trust.tool_acceptance import are_held_back, first_seen, withheld

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import ServerSettings, Settings, TrustPolicy
    from discovery_engine.rules.rule import Withheld
    from discovery_engine.tools.model import ServerName
    from discovery_engine.tools.offering import Definition
    from discovery_engine.trust.lockfile import Lock
    from discovery_engine.trust.scanner import Finding, Findings

SUSPICIOUS = "suspicious"
"""The tag of a tool about which there is an alarm."""


def suspicions(tools: Iterable[Definition], instructions: str, part: ServerPart) -> Findings:
    """The alarms about a server's definitions, by their keys, and about its instructions.

    Each is judged alone, for its neighbours may be others tomorrow. A definition that `part` has
    already is not read again.
    """
    was_read = part.findings is not None
    before = {e.tool.decision_key: e.tool.source for e in part.entries if was_read}
    before |= {e.offering.decision_key: e.offering.source for e in part.offerings if was_read}
    alarms: dict[str, tuple[Finding, ...]] = {}
    for tool in tools:
        name = tool.decision_key
        is_old = before.get(name) == tool.source
        alarms[name] = part.found_in(name) if is_old else scanner.alarms(scanner.scan(tool))
    if was_read and instructions == part.present_instructions:
        alarms[INSTRUCTIONS] = part.found_in(INSTRUCTIONS)
    else:
        about = scanner.scan_text(instructions, where="instructions")
        alarms[INSTRUCTIONS] = scanner.alarms(about)
    return {name: findings for name, findings in alarms.items() if findings}


def suspects(findings: Findings | None) -> frozenset[str]:
    """The keys of definitions with severe findings."""
    entries = (findings or {}).items()
    return frozenset(name for name, about in entries if any(finding.is_severe for finding in about))


_NOTHING: AcceptedTools = MappingProxyType({})


class ListedServer(NamedTuple):
    """The result of listing a server."""

    server: ServerSettings
    tools: tuple[Definition, ...]
    """With its resources, templates and prompts."""
    instructions: str
    suspects: Collection[str]
    """The names of tools, or of the instructions, that are not to be used unseen."""


class Trust(Struct, frozen=True):
    decisions: Decisions = field(default_factory=Decisions)
    lock: Lock | None = None
    """The pinned servers and definitions; None if anything may be used."""
    path: str | None = None
    """The configuration in use."""
    policy: TrustPolicy = "on_first_use"
    refused: Mapping[ServerName, Denial] = field(default_factory=lambda: MappingProxyType({}))
    """The servers that must not be started, as they were when the settings were read."""

    @classmethod
    def under(
        cls,
        settings: Settings,
        decisions: Decisions,
        *,
        lock: Lock | None,
        identify: Callable[[ServerSettings], Identity],
    ) -> Trust:
        """Combine what holds under `settings`.

        `identify` reads files of what was found and approved.
        """
        judged = (
            (s.name, refusal(s, partial(identify, s), decisions, path=settings.path, lock=lock))
            for s in settings.servers
        )
        refused = {name: why for name, why in judged if why}
        return cls(decisions, lock, settings.path, settings.trust, refused)

    def refusal(self, server: ServerSettings) -> Denial | None:
        """Why a server may not be started; None if it may."""
        return self.refused.get(server.name)

    def withheld(
        self,
        server: ServerSettings,
        tools: Sequence[Definition],
        instructions: str,
        suspects: Collection[str] = (),
    ) -> list[Withheld | None]:
        """Why each of a server's tools is withheld; None for those that may be used.

        `suspects` are the names of those that are not to be used unseen.
        """
        of_all = self.holds_back(server, instructions, suspects)
        policy, accepted = self.policy_of(server), self.accepted(server)
        return [
            self._unpinned(tool) or of_all or withheld(tool, policy, accepted, suspects)
            for tool in tools
        ]

    def holds_back(
        self, server: ServerSettings, instructions: str, suspects: Collection[str] = ()
    ) -> Withheld | None:
        """Why a server's instructions, and with them all its tools, are withheld."""
        if self.lock and not self.lock.pins_instructions(server.name, instructions):
            return "unpinned"
        policy, accepted = self.policy_of(server), self.accepted(server)
        return are_held_back(instructions, policy, accepted, suspects)

    def first_seen(
        self,
        server: ServerSettings,
        tools: Iterable[Definition],
        instructions: str,
        suspects: Collection[str] = (),
    ) -> Iterator[Acceptance]:
        """Yield what a listing shows for the first time and is accepted by that.

        With a lock file in force, what it does not pin is not accepted by being seen.
        """
        if self.lock:
            if not self.lock.pins_instructions(server.name, instructions):
                return iter(())
            tools = filter(self.lock.pins, tools)
        name, policy = known_as(server, self.path), self.policy_of(server)
        return first_seen(name, tools, instructions, policy, self.accepted(server), suspects)

    def policy_of(self, server: ServerSettings) -> TrustPolicy:
        """Return the policy for a tool that is not known to have been accepted.

        Where decisions were lost or cannot be read, the tool may have been accepted, and be another
        one by now.
        """
        policy = server.trust or self.policy
        if policy != "on_first_use":
            return policy
        is_blind = self.decisions.lost_at is not None or self.accepted(server) is UNREADABLE
        return "quarantine" if is_blind else policy

    def accepted(self, server: ServerSettings) -> AcceptedTools:
        return self.decisions.accepted.get(known_as(server, self.path), _NOTHING)

    def _unpinned(self, tool: Definition) -> Withheld | None:
        return "unpinned" if self.lock and not self.lock.pins(tool) else None
