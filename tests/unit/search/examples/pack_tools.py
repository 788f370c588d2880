"""The tool lists from which the shipped pack was made, for tests that change them."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from discovery_engine.tools.model import ServerName, Tool

FOLDER = Path(__file__).resolve().parents[4] / "benchmarks" / "everyday"


@cache
def _definitions() -> dict[str, list[dict[str, Any]]]:
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(FOLDER / "catalog.jsonl.gz", "rt", encoding="utf-8") as lines:
        for definition in map(json.loads, lines):
            found[definition.pop("server")].append(definition)
    return found


def packed_servers() -> list[str]:
    return sorted(_definitions())


def definitions_of(server: str) -> list[dict[str, Any]]:
    """As the server lists its tools; copies, to be changed."""
    return [dict(one) for one in _definitions()[server]]


def listed(definitions: list[dict[str, Any]], server: str = "somebody's") -> list[Tool]:
    return [Tool.from_mcp(ServerName(server), one) for one in definitions]
