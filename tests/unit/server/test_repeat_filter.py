from __future__ import annotations

import logging

import pytest

from discovery_server.logs import RepeatFilter


class Minutes:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now * 60


def warn(name: str, *words: object) -> None:
    logging.getLogger(name).warning("it failed %s", *words)


def test_each_minute_is_told_of_anew(caplog: pytest.LogCaptureFixture) -> None:
    clock = Minutes()
    repeats = RepeatFilter(clock=clock)
    caplog.handler.addFilter(repeats)
    try:
        for minute in range(3):
            clock.now = minute
            for _ in range(100):
                warn("mcp.server", "")
    finally:
        caplog.handler.removeFilter(repeats)

    told = [record.getMessage() for record in caplog.records if "suppressed" in record.getMessage()]
    assert len(told) == 2
    assert all(words.startswith("95 more warnings of mcp.server") for words in told)
    assert len(caplog.records) == 3 * 5 + 2
