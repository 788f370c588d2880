"""Poisoned tools found by reading what they say: offline, deterministic, and only a reader.

    findings = scan_catalog((entry.tool for entry in catalog), instructions={"mail": "..."})

The one rule: nothing here acts on what it reads. A finding is a mark for those who decide.
"""

from __future__ import annotations

from discovery_engine.scanner.findings import Finding, FindingKind, Severity
from discovery_engine.scanner.neighbours import Neighbours
from discovery_engine.scanner.scan import scan, scan_catalog, scan_instructions

__all__ = [
    "Finding",
    "FindingKind",
    "Neighbours",
    "Severity",
    "scan",
    "scan_catalog",
    "scan_instructions",
]
