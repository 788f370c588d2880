from __future__ import annotations

import json
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_cli.output import (
    Cell,
    Output,
    json_text,
    one_line,
    shortened,
)
from discovery_engine._util import text
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import columns_of
from tests.rows import rows


def test_one_line_has_no_line_ends() -> None:
    assert one_line(" a\n\n b\t c ") == "a b c"


def test_json_is_ascii_with_its_version_first() -> None:
    text = json_text({"name": "é\x9b\ud800"})

    assert text.isascii()
    assert list(json.loads(text)) == ["schema_version", "name"]


def test_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table([["a", "日本", "x"], ["bbb", "c"], [Cell("", "faint"), "d", "y"]])

    assert capsys.readouterr().out == "a    日本  x\nbbb  c\n     d     y\n"


def test_rows_with_marks_need_no_table_of_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    text._not_usual.cache_clear()  # compiling it and its like takes 3 ms of each start

    output.table([[output.mark(good=True), "a"], [output.open_mark(), "b"]])

    assert capsys.readouterr().out == "✓  a\n…  b\n"
    assert text._not_usual.cache_info().currsize == 0


def test_numbers_stand_at_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table([[Cell("5", to_the_right=True), "a"], [Cell("100", to_the_right=True), "b"]])

    assert capsys.readouterr().out == "  5  a\n100  b\n"


@pytest.mark.requirement("CLI-8")
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


def test_a_pipe_gets_the_last_column_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Output(width=20).table([["a", "x" * 50]])

    assert capsys.readouterr().out == f"a  {'x' * 50}\n"


def test_no_rows_are_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table([])

    assert capsys.readouterr().out == ""


def test_colours_only_where_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    Output(has_colour=True).line("x", "good")
    Output(has_colour=False).line("x", "good")

    assert capsys.readouterr().out == "\x1b[32mx\x1b[0m\nx\n"


def test_words_are_kept_back_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).say("x")
    Output().say("y")

    assert capsys.readouterr().err == "y\n"


def test_a_plain_encoding_gets_plain_characters(capsys: pytest.CaptureFixture[str]) -> None:
    plain = Output(has_unicode=False)
    plain.table([[plain.mark(good=True), plain.mark(good=False), "a… \u2013 b"]])

    assert capsys.readouterr().out == "+  x  a... - b\n"


def test_a_reader_that_went_away_ends_the_run_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, _: str) -> None:
            raise BrokenPipeError

        def fileno(self) -> int:
            raise ValueError

    monkeypatch.setattr(sys, "stdout", Closed())

    with pytest.raises(click.exceptions.Exit) as left:
        Output().line("x")
    assert left.value.exit_code == 0


@rows(("columns", "width"), [("100", 100), ("0", 80), ("many", 80), (None, 80)])
def test_the_width_is_the_terminals_or_the_usual_one(
    columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    environ = {"COLUMNS": columns} if columns else {}

    assert Output.of_streams(environ, as_json=False).width == width


def test_a_stream_without_an_encoding_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nameless:
        encoding = "no-such-encoding"

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdout", Nameless())

    assert not Output.of_streams({}, as_json=False).has_unicode


@rows(
    ("seconds", "words"),
    [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (7_300, "2 h"), (200_000, "2 d")],
)
def test_a_span_is_reported_in_its_largest_unit(seconds: float, words: str) -> None:
    assert ago(seconds) == words


def test_nouns_are_counted() -> None:
    assert [counted(n, "tool") for n in (0, 1, 2)] == ["0 tools", "1 tool", "2 tools"]


@given(st.text(), st.integers(min_value=4, max_value=30))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    assert columns_of(shortened(text, width, "…")) <= width
