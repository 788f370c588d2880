"""Findings of the scanner for people: what was found, where, and the text itself.

The words come last and in quotes, with whatever hides in them made visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_engine._util.text import named, quoted

if TYPE_CHECKING:
    from discovery_engine.scanner.findings import Finding


def suspicion_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """One line for each finding, safe for a terminal."""
    for finding in findings:
        yield f"{finding.severity}  {named(finding.where)}: {finding.message}: {excerpt(finding)}"


def excerpt(finding: Finding) -> str:
    return quoted(finding.excerpt)
