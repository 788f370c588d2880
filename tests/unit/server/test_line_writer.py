from __future__ import annotations

import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_server.line_writer import LineWriter

pytestmark = pytest.mark.requirement("SRV-42")

SOON = 30.0  # seconds, which is for ever


class Reader:
    """A sink that takes what it is given, one text for each `let`."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.begun = threading.Semaphore(0)
        self._let = threading.Semaphore(0)

    def let(self, texts: int) -> None:
        self._let.release(texts)

    def take(self, text: str) -> None:
        self.begun.release()
        assert self._let.acquire(timeout=SOON)
        self.texts.append(text)


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 100))
def test_every_line_is_written_in_order_or_counted(lengths: list[int], most: int) -> None:
    taken: list[str] = []
    writer = LineWriter(taken.append, max_waiting=most)
    lines = [f"{n} {'x' * length}\n" for n, length in enumerate(lengths)]

    for line in lines:
        writer.write(line)

    assert writer.close(SOON)
    place = 0
    for text in taken:
        if found := re.match(r"… (\d+) log lines were dropped\n", text):
            place += int(found[1])
        else:
            assert text == lines[place]
            place += 1
    assert place == len(lines)


def test_lines_that_wait_are_written_together_where_that_is_wanted() -> None:
    reader = Reader()
    writer = LineWriter(reader.take, max_waiting=30, joins=True)

    writer.write("line 0\n")  # 7 characters
    assert reader.begun.acquire(timeout=SOON)
    for n in range(1, 10):
        writer.write(f"line {n}\n")
    reader.let(3)

    assert writer.close(SOON)
    assert reader.texts == [
        "line 0\n",
        "line 1\nline 2\nline 3\n",
        "… 6 log lines were dropped\n",
    ]


def test_closing_waits_no_longer_than_it_may_for_a_reader_that_does_not_read() -> None:
    never = threading.Event()
    writer = LineWriter(lambda _: never.wait(), max_waiting=100)
    writer.write("x\n")

    is_written = writer.close(0.01)
    never.set()

    assert not is_written
