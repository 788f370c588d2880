"""The scanner on tools that its author had not seen, measured once: a regression gate.

The set is by another author than the development data, and was run when all tuning of alarms was
done. Then 0.690 of the poisoned tools raised an alarm, and 0.0175 of the innocent ones; 0.385 and
0.010 were severe. That was too much to withhold from honest servers, so the margin of what is
severe was widened afterwards, without a look at the set; alarms are as they were. The bounds leave
two points for alarms.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import Tool
from discovery_engine.trust import scanner
from discovery_engine.trust.scanner import Neighbours, scan

DATA = Path(__file__).parents[2] / "contract" / "scanner_gate"


def shares(name: str) -> tuple[float, float]:
    """The shares of a set's tools that raise an alarm, and that are severe."""
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    found = [scanner.alarms(scan(*subject(row))) for row in rows]
    severe = [any(finding.is_severe for finding in findings) for findings in found]
    return sum(map(bool, found)) / len(rows), sum(severe) / len(rows)


def subject(row: dict[str, Any]) -> tuple[Tool, Neighbours]:
    tool = Tool.from_mcp("subject", row["tool"])
    others = [
        Tool.from_mcp(server, {"name": other})
        for server, _, other in (key.partition(":") for key in row.get("neighbours") or ())
    ]
    return tool, Neighbours.of([tool, *others])


@pytest.mark.requirement("SCN-8")
def test_recall_on_the_gate_set_does_not_fall() -> None:
    alarm, severe = shares("poisoned")

    assert alarm >= 0.67
    assert severe >= 0.25


@pytest.mark.requirement("SCN-8")
def test_false_alarms_on_the_gate_set_do_not_rise() -> None:
    alarm, severe = shares("innocent")

    assert alarm <= 0.02
    assert severe <= 0.01
