"""The manifest of the fitted data files: which script fitted each, from what, when, and how well.

A script that writes a data file calls `record`. A test compares every file with its entry, so a
file that was changed by hand, or fitted from a table that is no longer shipped, is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "discovery_engine" / "search" / "data"
MANIFEST = DATA / "manifest.json"
IDF = DATA / "inverse_document_frequency.txt"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def digests(files: Iterable[Path], below: Path) -> dict[str, str]:
    """By the path below a folder, so that the manifest holds no path of a machine."""
    return {file.relative_to(below).as_posix(): digest(file) for file in sorted(files)}


def record(
    file: Path, *, script: str, inputs: Mapping[str, str], metrics: Mapping[str, float]
) -> None:
    """Enter a data file as it is now; `inputs` are digests by name."""
    entries = json.loads(MANIFEST.read_text(encoding="utf-8")) if MANIFEST.exists() else {}
    entries[file.name] = {
        "sha256": digest(file),
        "script": script,
        "fitted": datetime.now(tz=UTC).date().isoformat(),
        "metrics": {name: round(value, 4) for name, value in metrics.items()},
        "inputs": dict(inputs),
    }
    text = json.dumps(dict(sorted(entries.items())), indent=2)
    MANIFEST.write_text(f"{text}\n", encoding="utf-8")
