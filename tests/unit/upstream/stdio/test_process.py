from __future__ import annotations

import os
import sys

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.upstream.stdio.process import StderrBuffer, start_program, supervise

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


@pytest.mark.requirement("UPS-13")
async def test_a_flood_of_complaints_is_read_with_rests_in_between() -> None:
    code = "import os; [os.write(2, b'\\n' * 65536) for _ in range(8)]"
    lines: list[str] = []
    longest = rests = 0

    async def pause() -> None:
        nonlocal longest, rests
        longest = max(longest, len(lines))
        rests += 1
        lines.clear()

    process = await start_program([sys.executable, "-c", code], env=dict(os.environ), cwd=None)
    async with supervise(process, on_lines=lines.extend, pause=pause) as child:
        with anyio.fail_after(60):
            await child.exit_reason(within=20)

    assert rests >= 8 * 65536 // (5 * 16 * 1024)
    assert longest <= 5 * 16 * 1024
