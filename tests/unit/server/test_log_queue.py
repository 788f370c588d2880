from __future__ import annotations

import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_server.logs import LogQueue

pytestmark = pytest.mark.requirement("SRV-42")

SOON = 30.0  # seconds, which is for ever


@given(st.integers(0, 40), st.integers(1, 50))
def test_every_line_is_written_in_order_or_counted(count: int, most: int) -> None:
    taken: list[str] = []
    queue = LogQueue(taken.append, most)
    for number in range(count):
        queue.put(f"{number}\n")

    assert queue.close_within(SOON)
    place = 0
    for line in "".join(taken).splitlines():
        if dropped := re.fullmatch(r"… (\d+) log lines were dropped", line):
            place += int(dropped[1])
        else:
            assert line == str(place)
            place += 1
    assert place == count


def test_lines_that_wait_are_written_together_and_those_that_do_not_fit_are_counted() -> None:
    taken: list[str] = []
    begun, may_write = threading.Event(), threading.Event()

    def write(text: str) -> None:
        begun.set()
        assert may_write.wait(SOON)
        taken.append(text)

    queue = LogQueue(write, 3)
    queue.put("line 0\n")
    assert begun.wait(SOON)
    for number in range(1, 10):
        queue.put(f"line {number}\n")
    is_early = queue.close_within(0.01)
    may_write.set()

    assert not is_early
    assert queue.close_within(SOON)
    assert taken == [
        "line 0\n",
        "line 1\nline 2\nline 3\n",
        "… 6 log lines were dropped\n",
    ]
