"""The suspicious parts of the texts of a server and its tools.

A text is read when it is new, and the findings are remembered with the server's part of the
catalog: reading takes longer than all else that is done with a listing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discovery_engine.trust import scanner
from discovery_engine.trust.decisions import INSTRUCTIONS

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.tools.offering import Definition
    from discovery_engine.trust.scanner import Finding, Findings

SUSPICIOUS = "suspicious"
"""The tag of a tool about which there is an alarm."""


def suspicions(tools: Iterable[Definition], instructions: str, known: ServerPart) -> Findings:
    """The alarms about a server's definitions, by their keys, and about its instructions.

    Each is judged alone, for its neighbours may be others tomorrow. What is `known` of the
    server, and the same now, is not read again.
    """
    was_read = known.findings is not None
    before = {e.tool.decision_key: e.tool.source for e in known.entries if was_read}
    before |= {e.offering.decision_key: e.offering.source for e in known.offerings if was_read}
    alarms: dict[str, tuple[Finding, ...]] = {}
    for tool in tools:
        name = tool.decision_key
        is_old = before.get(name) == tool.source
        alarms[name] = known.found_in(name) if is_old else scanner.alarms(scanner.scan(tool))
    if was_read and instructions == known.present_instructions:
        alarms[INSTRUCTIONS] = known.found_in(INSTRUCTIONS)
    else:
        about = scanner.scan_text(instructions, where="instructions")
        alarms[INSTRUCTIONS] = scanner.alarms(about)
    return {name: findings for name, findings in alarms.items() if findings}


def suspects(findings: Findings | None) -> frozenset[str]:
    """The keys of definitions with severe findings."""
    entries = (findings or {}).items()
    return frozenset(name for name, about in entries if any(finding.is_severe for finding in about))
