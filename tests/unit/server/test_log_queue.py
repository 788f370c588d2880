from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_server.logs import LogQueue

pytestmark = pytest.mark.requirement("SRV-5")

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
