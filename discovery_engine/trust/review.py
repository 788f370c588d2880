"""The definitions that wait for the owner's review, compared with the accepted ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.json import JSONValue
from discovery_engine.tools.offering import Definition
from discovery_engine.trust.decisions import INSTRUCTIONS, Acceptance
from discovery_engine.trust.definition_diff import Change, Weight, diff_definitions, heaviest
from discovery_engine.trust.effective_trust import suspects
from discovery_engine.trust.scanner import Finding, Neighbours, alarms, scan, scan_text
from discovery_engine.trust.server_identity import known_as
from discovery_engine.trust.tool_acceptance import accept, accept_instructions, withheld

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.trust.effective_trust import Trust

_NO_NEIGHBOURS = Neighbours()


class Review(Struct, frozen=True):
    """A definition or a server's instructions to review, and the acceptance if they pass."""

    acceptance: Acceptance
    """The acceptance of the current state."""
    before: JSONValue
    """The definition or instructions accepted last; None if nothing was accepted before."""
    after: JSONValue
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...] = ()
    """The suspicious passages of the current state."""

    @property
    def tool(self) -> str:
        """The server's own tool name, or a key such as `prompt:review`; empty for instructions."""
        return self.acceptance.tool

    @property
    def weight(self) -> Weight | None:
        """The heaviest weight of a change; None if nothing was accepted before."""
        return heaviest(self.changes)


def reviews(
    server: ServerSettings,
    part: ServerPart,
    trust: Trust,
    history: Iterable[Acceptance],
    *,
    neighbours: Neighbours = _NO_NEIGHBOURS,
) -> tuple[Review, ...]:
    """Return the reviews of a server: its instructions, then its tools, then other offerings.

    Tools that are withheld only because the instructions changed are left out.

    Args:
        server: The server.
        part: Its part of the catalog.
        trust: The owner's decisions and policies.
        history: The acceptances of the server, the last one last.
        neighbours: The names of all known tools.
    """
    accepted = {acceptance.tool: json.loads(acceptance.definition) for acceptance in history}
    return tuple(_reviews(server, part, trust, accepted, neighbours))


def _reviews(
    server: ServerSettings,
    part: ServerPart,
    trust: Trust,
    accepted: Mapping[str, JSONValue],
    neighbours: Neighbours,
) -> Iterator[Review]:
    name = known_as(server, trust.path)
    if part.new_instructions is not None:
        yield _of_instructions(name, part.new_instructions, accepted.get(INSTRUCTIONS))
    policy, accepted_tools = trust.policy_of(server), trust.accepted(server)
    suspected = suspects(part.findings)
    for entry in part.entries:
        if entry.is_withheld and withheld(entry.tool, policy, accepted_tools, suspected):
            before = accepted.get(entry.tool.decision_key)
            yield _of_definition(name, entry.tool, before, neighbours)
    for other in part.offerings:
        if other.is_withheld and withheld(other.offering, policy, accepted_tools, suspected):
            before = accepted.get(other.offering.decision_key)
            yield _of_definition(name, other.offering, before, _NO_NEIGHBOURS)


def _of_instructions(server: str, now: str, before: JSONValue) -> Review:
    changes = () if before is None else (Change("text", "instructions", before, now),)
    findings = alarms(scan_text(now, where="instructions"))
    return Review(accept_instructions(server, now), before, now, changes, findings)


def _of_definition(
    server: str, definition: Definition, before: JSONValue, neighbours: Neighbours
) -> Review:
    changes = () if before is None else diff_definitions(before, definition.definition)
    findings = alarms(scan(definition, neighbours))
    return Review(accept(server, definition), before, definition.definition, changes, findings)
