from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.upstream.stdio.process import StderrBuffer

pytestmark = pytest.mark.anyio


@given(st.lists(st.binary(max_size=40), max_size=40))
def test_the_last_lines_are_shown_without_terminal_controls(chunks: list[bytes]) -> None:
    errors = StderrBuffer()

    for chunk in chunks:
        errors.add(chunk)

    assert len(errors.tail.split("\n")) <= 20
    assert all(c.isprintable() or c in "\n\t" or ord(c) > 159 for c in errors.tail)


@given(st.text(max_size=60), st.integers(min_value=1, max_value=7))
def test_characters_may_arrive_in_pieces(text: str, size: int) -> None:
    whole, pieces = StderrBuffer(), StderrBuffer()
    written = text.encode()

    whole.add(written)
    for start in range(0, len(written), size):
        pieces.add(written[start : start + size])

    assert pieces.tail == whole.tail
