"""The scanner on its development data, which its lexicon was written and its weights fitted with.

These are regression gates: they say that nothing was lost, not what will be found. What is found
at first sight is measured in `test_scanner_gate.py`.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.trust import scanner
from discovery_engine.trust.scanner import Finding, Neighbours, scan, scan_catalog
from tests.kinds import thinned
from tests.rows import rows

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "contract" / "scanner_development"
ROOM = Path(scanner.__file__).parent
HARMLESS = {
    "__future__", "base64", "binascii", "codecs", "collections", "collections.abc",
    "discovery_engine._util.json", "discovery_engine._util.text", "discovery_engine.tools.model",
    "discovery_engine.tools.findings", "discovery_engine.tools.offering",
    "enum", "functools", "html", "importlib", "itertools", "json", "msgspec", "msgspec.structs",
    "operator", "pathlib", "re", "tomllib", "types", "typing", "unicodedata",
}  # fmt: skip


def examples(name: str) -> list[dict[str, Any]]:
    lines = (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def alarms(example: dict[str, Any]) -> tuple[Finding, ...]:
    """What is found in an example's tool beside its neighbours, but for notices."""
    tool = tool_of(example)
    others = []
    for key in example.get("neighbours") or ():
        server, _, name = key.partition(":")
        others.append(Tool.from_mcp(ServerName(server), {"name": name}))
    return scanner.alarms(scan(tool, Neighbours.of([tool, *others])))


def tool_of(example: dict[str, Any]) -> Tool:
    return Tool.from_mcp(ServerName("subject"), example["tool"])


def is_severe(example: dict[str, Any]) -> bool:
    """Whether an example's tool, by itself, says what no honest tool says."""
    return any(finding.is_severe for finding in scan(tool_of(example)))


def share_with_alarm(rows: list[dict[str, Any]]) -> float:
    return sum(bool(alarms(example)) for example in rows) / len(rows)


@pytest.mark.requirement("SCN-8")
@rows(
    ("name", "least"),
    [
        pytest.param("poisoned", 0.76, id="known wordings"),
        pytest.param("second_poisoned", 0.56, id="second author"),
        pytest.param("third_poisoned", 0.47, id="third author"),
    ],
)
def test_recall_on_the_development_data_does_not_fall(name: str, least: float) -> None:
    assert share_with_alarm(examples(name)) >= least


@pytest.mark.requirement("SCN-8")
@pytest.mark.parametrize("name", thinned(["innocent", "second_innocent", "third_innocent"]))
def test_false_alarms_on_the_development_data_do_not_rise(name: str) -> None:
    assert share_with_alarm(examples(name)) <= 0.01


@pytest.mark.requirement("SCN-8")
@pytest.mark.parametrize(
    "name", thinned(["honest", "innocent", "second_innocent", "third_innocent"])
)
def test_no_honest_tool_of_the_development_data_is_severe(name: str) -> None:
    assert [example["id"] for example in examples(name) if is_severe(example)] == []


@pytest.mark.requirement("SCN-8")
def test_severe_findings_of_known_wordings_do_not_get_fewer() -> None:
    poisoned = examples("poisoned")

    assert sum(map(is_severe, poisoned)) / len(poisoned) >= 0.30


def test_the_weights_are_those_that_the_data_of_the_repository_gave() -> None:
    weights = "discovery_engine/trust/scanner/data/signal_weights"
    manifest = json.loads((ROOT / f"{weights}.manifest.json").read_text("utf-8"))
    files = {**manifest["inputs"], f"{weights}.json": manifest["output"]}

    assert {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in files} == files


def test_order_of_tools_changes_nothing() -> None:
    tools = [
        Tool.from_mcp(ServerName(f"server-{at % 7}"), {**example["tool"], "name": f"tool_{at}"})
        for at, example in enumerate(examples("poisoned")[::4])
    ]

    assert scan_catalog(tools) == scan_catalog(tools[::-1])


def imported() -> Iterator[str]:
    for file in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Import(names=names):
                    yield from (alias.name for alias in names)
                case ast.ImportFrom(module=str() as module):
                    yield module


def test_the_scanner_can_reach_nothing() -> None:
    foreign = {name for name in imported() if not name.startswith("discovery_engine.trust.scanner")}

    assert foreign - HARMLESS == set()
