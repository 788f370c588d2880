from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.scanner.commands import command_in
from discovery_engine.scanner.credentials import credential_in
from discovery_engine.scanner.detection import passages_of
from discovery_engine.scanner.disguises import is_undisguised
from discovery_engine.scanner.evidence import Place, evidence_in
from discovery_engine.scanner.invisible import hidden_in
from discovery_engine.scanner.normalization import loose, plain
from discovery_engine.scanner.payloads import decoded
from discovery_engine.scanner.screening import may_alarm, pieces_of
from discovery_engine.tools.model import ServerName, Tool
from tests.rows import rows

DATA = Path(__file__).parents[2] / "contract" / "scanner_development"


def texts(name: str) -> list[str]:
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    tools = [Tool.from_mcp(ServerName("subject"), row["tool"]) for row in rows]
    return [passage.text for tool in tools for passage in passages_of(tool.definition)]


@rows("name", ["poisoned", "second_poisoned", "third_poisoned"])
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


@given(st.text() | st.text(alphabet="aB1 .,-_@:/%\\\nxi", max_size=80))
def test_a_text_without_disguise_has_nothing_for_the_other_detectors(text: str) -> None:
    if is_undisguised(text):
        assert not any(True for _ in hidden_in(text))
        assert credential_in(text) is None
        assert command_in(plain(text)) is None
        assert loose(text) == plain(text)


CODES: list[Callable[[bytes], bytes]] = [
    base64.b64encode,
    base64.urlsafe_b64encode,
    base64.b32encode,
    binascii.hexlify,
    lambda data: binascii.hexlify(data).upper(),
    lambda data: base64.b64encode(data.decode().encode("utf-16-le")),
]


@given(
    st.text("abcdefgh ignoreé中.", min_size=8, max_size=60),
    st.sampled_from(CODES),
    st.integers(8, 80),
    st.text("aB_- \n", max_size=12),
    st.text("aB_-. \n", max_size=12),
)
def test_a_text_without_disguise_holds_no_code(
    hidden: str, code: Callable[[bytes], bytes], width: int, before: str, behind: str
) -> None:
    letters = code(hidden.encode()).decode()
    wrapped = "\n".join(letters[at : at + width] for at in range(0, len(letters), width))
    text = before + wrapped + behind

    if is_undisguised(text):
        assert not list(decoded(text))
