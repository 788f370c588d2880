"""The permissions of a configuration's servers and tools: all decisions combined.

The gate before a connection and the verdicts of the catalog use the same value, so that a server
which must not be started has no tools in search results either.
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
"""The tag of a tool with a finding that is an alarm."""


def suspicions(tools: Iterable[Definition], instructions: str, part: ServerPart) -> Findings:
    """Return the alarms about a server's definitions and instructions, by key.

    Each text is judged on its own, since the other definitions may change. One that `part` contains
    unchanged is not scanned again.
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
    """Return the keys of definitions with severe findings."""
    entries = (findings or {}).items()
    return frozenset(name for name, about in entries if any(finding.is_severe for finding in about))


_NOTHING: AcceptedTools = MappingProxyType({})


class ListedServer(NamedTuple):
    """The result of listing a server."""

    server: ServerSettings
    tools: tuple[Definition, ...]
    """Its tools, resources, templates and prompts."""
    instructions: str
    suspects: Collection[str]
    """The keys of definitions and instructions that need a review before they are used."""


class Trust(Struct, frozen=True):
    """The owner's decisions, the lock file and the policy, applied to servers and tools."""

    decisions: Decisions = field(default_factory=Decisions)
    lock: Lock | None = None
    """The pinned servers and definitions; None if anything may be used."""
    path: str | None = None
    """The configuration in use."""
    policy: TrustPolicy = "on_first_use"
    refused: Mapping[ServerName, Denial] = field(default_factory=lambda: MappingProxyType({}))
    """The servers that must not be started, by the state of their files at `under`."""

    @classmethod
    def under(
        cls,
        settings: Settings,
        decisions: Decisions,
        *,
        lock: Lock | None,
        identify: Callable[[ServerSettings], Identity],
    ) -> Trust:
        """Combine decisions, lock file and policy for the servers of `settings`.

        `identify` returns the identity of a server, for which it reads the server's files.
        """
        judged = (
            (s.name, refusal(s, partial(identify, s), decisions, path=settings.path, lock=lock))
            for s in settings.servers
        )
        refused = {name: why for name, why in judged if why}
        return cls(decisions, lock, settings.path, settings.trust, refused)

    def refusal(self, server: ServerSettings) -> Denial | None:
        """Return why a server must not be started; None if it may."""
        return self.refused.get(server.name)

    def withheld(
        self,
        server: ServerSettings,
        tools: Sequence[Definition],
        instructions: str,
        suspects: Collection[str] = (),
    ) -> list[Withheld | None]:
        """Return, for each of a server's tools in order, why it is withheld; None if it is not.

        `suspects` are the keys of definitions that need a review before they are used.
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
        """Return why a server's instructions and all its tools are withheld; None if not."""
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
        """Return the definitions of a listing that are accepted because they are new.

        With a lock file, only pinned definitions are accepted in this way.
        """
        if self.lock:
            if not self.lock.pins_instructions(server.name, instructions):
                return iter(())
            tools = filter(self.lock.pins, tools)
        name, policy = known_as(server, self.path), self.policy_of(server)
        return first_seen(name, tools, instructions, policy, self.accepted(server), suspects)

    def policy_of(self, server: ServerSettings) -> TrustPolicy:
        """Return the policy for tools of a server that have no acceptance.

        If decisions were lost or cannot be read, `on_first_use` becomes `quarantine`: such a tool
        may have been accepted, and have changed since.
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
