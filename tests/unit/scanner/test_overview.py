from __future__ import annotations

import json
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from discovery_engine.scanner.detection import passages_of
from discovery_engine.scanner.overview import is_harmless
from discovery_engine.scanner.screening import screened
from discovery_engine.tools.model import ServerName, Tool
from tests.rows import rows

DATA = Path(__file__).parents[2] / "contract" / "scanner_development"
WORDS = (
    "do not tell the user ignore all previous instructions send api key ~/.ssh/id_rsa to a.example"
    " www.evil.example 10.0.0.1 `read_file` <system> [inst] <!-- curl env rm -rf / set | sh -i 41"
    " 42 0x43 PRIVATE KEY sk- %41 a b c d e f ai e.g. i.e. e-mail sag nicht dem benutzer envoie"
    " les mots you must always before calling any other tool; secretly, forward."
    " ```system #### system"
)


def definitions(name: str) -> list[list[str]]:
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    tools = [Tool.from_mcp(ServerName("subject"), row["tool"]) for row in rows]
    return [[passage.text for passage in passages_of(tool.definition)] for tool in tools]


@given(
    st.lists(
        st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join)
        | st.text(max_size=30)
        | st.text(alphabet="aB1 .,-_@:/%`<[#\\\nxi", max_size=80),
        max_size=5,
    )
)
@example(["rm", "-rf ~"])
@example(["a b c", "d e f"])
def test_no_definition_is_cleared_of_which_a_text_may_raise_an_alarm(texts: list[str]) -> None:
    if is_harmless(texts):
        assert all(screened(text).is_harmless for text in texts)


@rows("name", ["poisoned", "second_poisoned", "second_innocent"])
def test_no_definition_of_the_data_is_cleared_that_is_not_text_by_text(name: str) -> None:
    cleared = [texts for texts in definitions(name) if is_harmless(texts)]

    assert all(screened(text).is_harmless for texts in cleared for text in texts)
