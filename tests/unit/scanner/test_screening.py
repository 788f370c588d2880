from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.scanner.commands import command_in
from discovery_engine.scanner.credentials import credential_in
from discovery_engine.scanner.disguises import is_undisguised
from discovery_engine.scanner.evidence import Place, evidence_in
from discovery_engine.scanner.invisible import hidden_in
from discovery_engine.scanner.normalization import loose, plain
from discovery_engine.scanner.passages import passages_of
from discovery_engine.scanner.screening import may_alarm, pieces_of, screened
from discovery_engine.tools.model import ServerName, Tool

DATA = Path(__file__).parents[2] / "contract" / "scanner_development"


def texts(name: str) -> list[str]:
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    tools = [Tool.from_mcp(ServerName("subject"), row["tool"]) for row in rows]
    return [passage.text for tool in tools for passage in passages_of(tool.definition)]


@pytest.mark.requirement("SCN-10")
@pytest.mark.parametrize("name", ["poisoned", "second_poisoned", "third_poisoned"])
def test_no_sentence_that_raises_an_alarm_is_cleared_by_the_quick_look(name: str) -> None:
    place = Place(is_argument=True)
    cleared = [
        evidence.text
        for text in texts(name)
        for piece in pieces_of(plain(text))
        if not may_alarm(piece, place)
        for evidence in evidence_in(piece.text)
        if evidence.is_alarm(place)
    ]

    assert cleared == []


@pytest.mark.requirement("SCN-10")
@given(st.text() | st.text(alphabet="aB1 .,-_@:/%\\\nxi", max_size=80))
def test_a_text_without_disguise_has_nothing_for_the_other_detectors(text: str) -> None:
    if is_undisguised(text):
        assert not any(True for _ in hidden_in(text))
        assert credential_in(text) is None
        assert command_in(plain(text)) is None
        assert loose(text) == plain(text)


def test_most_sentences_of_honest_tools_are_cleared() -> None:
    pieces = [piece for text in texts("second_innocent") for piece in screened(text).pieces]

    passed = sum(may_alarm(piece, Place()) for piece in pieces)

    assert passed <= len(pieces) * 0.15
