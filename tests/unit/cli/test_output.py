from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_cli.output import (
    Cell,
    Output,
    shortened,
)
from discovery_engine._util.text import columns_of


def test_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table([["a", "日本", "x"], ["bbb", "c"], [Cell("", "faint"), "d", "y"]])

    assert capsys.readouterr().out == "a    日本  x\nbbb  c\n     d     y\n"


@pytest.mark.requirement("CLI-2")
def test_a_terminal_breaks_the_last_column(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_terminal=True, width=26).table(
        [
            ["a", "what is wrong, where, and what to do"],
            ["b", "/a/path/that/is/longer/than/that x"],
        ],
        indent=2,
    )

    assert capsys.readouterr().out.splitlines() == [
        "  a  what is wrong, where,",
        "     and what to do",
        "  b  /a/path/that/is/longer/than/that",
        "     x",
    ]


def test_a_terminal_cuts_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    words = Cell("word " * 20, is_summary=True)
    Output(is_terminal=True, width=30).table([["a", words]], indent=2)
    Output(is_terminal=True, width=10, has_unicode=False).table([["a", words]])

    wide, narrow = capsys.readouterr().out.splitlines()
    assert columns_of(wide) <= 30
    assert wide.endswith("…")
    assert narrow == "a  word word word wo..."


def test_a_plain_encoding_gets_plain_characters(capsys: pytest.CaptureFixture[str]) -> None:
    plain = Output(has_unicode=False)
    plain.table([[plain.mark(good=True), plain.mark(good=False), "a… \u2013 b"]])

    assert capsys.readouterr().out == "+  x  a... - b\n"


@given(st.text(), st.integers(min_value=4, max_value=30))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    assert columns_of(shortened(text, width, "…")) <= width
