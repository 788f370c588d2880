"""Reading in slices gives what reading at a stroke gives, and never takes long for one step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery_engine._util.json import parse_json
from discovery_engine.rpc.incremental_json import ParseSteps, parse_incrementally
from tests.rows import rows

TEXT = st.text(st.sampled_from('ab"\\\n,:[]{} 0é\U0001f600\ud83d'), max_size=12)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
JSON = st.recursive(
    SCALAR, lambda v: st.lists(v, max_size=6) | st.dictionaries(TEXT, v, max_size=6), max_leaves=40
)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n")])
WINDOWS = st.sampled_from([1, 2, 3, 5, 8, 16, 50, 1000])


def steps(slices: ParseSteps[Any]) -> Iterator[Any]:
    """None for each step, then the value."""
    value = yield from slices
    yield value


def read(text: str, window: int) -> Any:
    *_, value = steps(parse_incrementally(text, lambda value, _: value, window=window))
    return value


def outcome(text: str, window: int | None) -> str:
    try:
        return repr(parse_json(text) if window is None else read(text, window))
    except ValueError:
        return "unreadable"


@pytest.mark.thorough
@settings(max_examples=400)
@given(JSON, STYLES, WINDOWS, st.booleans())
def test_whatever_is_json_is_read_the_same(
    value: object, style: tuple[str, str], window: int, is_ascii: bool
) -> None:
    text = f" {json.dumps(value, separators=style, ensure_ascii=is_ascii)} "

    assert outcome(text, window) == outcome(text, None)


@pytest.mark.thorough
@settings(max_examples=400)
@given(JSON, st.integers(0, 200), st.sampled_from([*'},]":1eN -.', "", "\\"]), WINDOWS)
def test_what_is_broken_is_told_apart_the_same(
    value: object, place: int, change: str, window: int
) -> None:
    text = json.dumps(value)
    text = text[:place] + change + text[place + 1 :]

    assert outcome(text, window) == outcome(text, None)


@rows("number", ["12345678", "-0.5e+12", "1E5", "0", "-1.25"])
def test_a_number_is_never_cut(number: str) -> None:
    text = f"[{number},{number}]"

    for window in range(1, len(text) + 2):
        assert read(text, window) == json.loads(text)


def test_what_nests_too_deeply_is_a_value_error_at_any_width() -> None:
    with pytest.raises(ValueError, match="too deeply"):
        read("[" * 500 + "]" * 500, 100)


def test_each_piece_is_cleaned_with_its_own_text() -> None:
    seen: list[str] = []

    def clean(value: Any, text: str) -> Any:
        seen.append(text)
        return value

    list(steps(parse_incrementally('[1, 2, 3, {"key": "value"}]', clean, window=8)))

    assert "".join(seen).replace(" ", "") == '1,23"key""value"'
