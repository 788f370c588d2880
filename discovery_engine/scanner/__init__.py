"""Detects poisoned tools by their text, offline and deterministically.

    findings = scan_catalog((entry.tool for entry in catalog), instructions={"mail": "..."})

The one rule: nothing here acts on what it reads. A finding is a mark for those who decide. The
patterns are loaded when something is read: to be told of a finding takes none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.scanner.findings import (
        Finding,
        FindingKind,
        Findings,
        Severity,
        alarms,
    )
    from discovery_engine.scanner.neighbours import Neighbours
    from discovery_engine.scanner.reading import scan, scan_catalog, scan_text

_HOMES = {
    "Finding": "findings",
    "FindingKind": "findings",
    "Findings": "findings",
    "Neighbours": "neighbours",
    "Severity": "findings",
    "alarms": "findings",
    "scan": "reading",
    "scan_catalog": "reading",
    "scan_text": "reading",
}

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
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
