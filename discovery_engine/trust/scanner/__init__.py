"""Detects poisoned tools by their text, offline and deterministically.

    findings = scan_catalog((entry.tool for entry in catalog), instructions={"mail": "..."})

The one rule: the scanner reports findings and changes nothing. The patterns are loaded by the
first scan; the classes of findings are importable without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from discovery_engine.tools.findings import Finding, FindingKind, Findings, Severity, alarms

if TYPE_CHECKING:
    from discovery_engine.trust.scanner.detection import scan, scan_catalog, scan_text
    from discovery_engine.trust.scanner.neighbours import Neighbours

__all__ = [
    "Finding",
    "FindingKind",
    "Findings",
    "Neighbours",
    "Severity",
    "alarms",
    "scan",
    "scan_catalog",
    "scan_text",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.detection"), name)
    globals()[name] = value  # each tool is scanned through this module
    return value
