"""The scanner's gate: a labelled corpus, measured on the half whose misses tuning did not see.

`honest` holds what honest tools may well say that is near to what poisoned ones do: alarms about
it are in order, but nothing in it is a danger.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import scanner
from discovery_engine.scanner import Finding, FindingKind, Neighbours, scan, scan_catalog
from discovery_engine.tools.model import ServerName, Tool

CORPUS = Path(__file__).with_name("scanner_corpus")
ROOM = Path(scanner.__file__).parent
HARMLESS = {
    "__future__", "base64", "binascii", "codecs", "collections", "collections.abc",
    "discovery_engine._util.json", "discovery_engine._util.text", "discovery_engine.tools.model",
    "enum", "functools", "html", "importlib", "itertools", "msgspec", "msgspec.structs", "re",
    "typing", "unicodedata",
}  # fmt: skip


def corpus(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / f"{name}.jsonl").read_text().splitlines()]


def is_held_out(example: dict[str, Any]) -> bool:
    return hashlib.sha256(example["id"].encode()).digest()[0] % 2 == 1


def alarms(example: dict[str, Any]) -> tuple[Finding, ...]:
    """What is found in an example's tool beside its neighbours, but for notices."""
    tool = tool_of(example)
    others = []
    for key in example.get("neighbours", ()):
        server, _, name = key.partition(":")
        others.append(Tool.from_mcp(ServerName(server), {"name": name}))
    return scanner.alarms(scan(tool, Neighbours.of([tool, *others])))


def tool_of(example: dict[str, Any]) -> Tool:
    return Tool.from_mcp(ServerName("subject"), example["tool"])


def is_grave(example: dict[str, Any]) -> bool:
    """Whether an example's tool, by itself, says what no honest tool says."""
    return any(finding.is_grave for finding in scan(tool_of(example)))


def share_with_alarm(examples: list[dict[str, Any]]) -> float:
    return sum(bool(alarms(example)) for example in examples) / len(examples)


@pytest.mark.requirement("SCN-3")
def test_corpus_is_large_and_balanced() -> None:
    poisoned, innocent = corpus("poisoned"), corpus("innocent")
    examples = [*poisoned, *innocent]

    assert len(examples) >= 500
    assert 0.9 <= len(innocent) / len(poisoned) <= 1.1
    assert len({example["id"] for example in examples}) == len(examples)
    assert len({json.dumps(example["tool"]) for example in examples}) == len(examples)


@pytest.mark.requirement("SCN-3")
def test_recall_on_the_held_out_half() -> None:
    assert share_with_alarm([*filter(is_held_out, corpus("poisoned"))]) >= 0.95


@pytest.mark.requirement("SCN-3")
def test_false_alarms_on_the_held_out_half() -> None:
    assert share_with_alarm([*filter(is_held_out, corpus("innocent"))]) <= 0.02


def test_innocent_sentences_written_after_the_detectors_raise_no_alarm() -> None:
    unseen = [example for example in corpus("unseen") if not example["poisoned"]]

    assert share_with_alarm(unseen) == 0


@pytest.mark.requirement("SCN-7")
@pytest.mark.parametrize("name", ["innocent", "honest"])
def test_no_honest_tool_is_a_danger(name: str) -> None:
    assert [example["id"] for example in corpus(name) if is_grave(example)] == []


@pytest.mark.requirement("SCN-7")
def test_near_half_of_the_poisoned_tools_are_a_danger_by_themselves() -> None:
    held_out = [*filter(is_held_out, corpus("poisoned"))]

    assert sum(map(is_grave, held_out)) / len(held_out) >= 0.45


def test_every_kind_of_finding_is_made_by_the_corpus() -> None:
    found = {finding.kind for example in corpus("poisoned") for finding in alarms(example)}

    assert found == set(FindingKind)


@pytest.mark.requirement("SCN-2")
def test_order_of_tools_changes_nothing() -> None:
    tools = [
        Tool.from_mcp(ServerName(f"server-{at % 7}"), {**example["tool"], "name": f"tool_{at}"})
        for at, example in enumerate(corpus("poisoned")[::4])
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


@pytest.mark.requirement("SCN-1")
def test_the_scanner_can_reach_nothing() -> None:
    foreign = {name for name in imported() if not name.startswith("discovery_engine.scanner")}

    assert foreign - HARMLESS == set()


def test_no_excerpt_carries_what_nobody_sees() -> None:
    excerpts = [finding.excerpt for example in corpus("poisoned") for finding in alarms(example)]

    assert [text for text in excerpts if not text.replace("\u200d", "").isprintable()] == []
