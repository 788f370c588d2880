from __future__ import annotations

import logging
from pathlib import Path

import pytest

from discovery_engine.config.settings import LogSettings
from discovery_server.logs import log_to
from discovery_server.repeat_filter import RepeatFilter

pytestmark = pytest.mark.requirement("SRV-32")


class Minutes:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now * 60


def warn(name: str, *words: object) -> None:
    logging.getLogger(name).warning("it failed %s", *words)


def warn_elsewhere(name: str) -> None:
    logging.getLogger(name).warning("it failed otherwise")


@pytest.mark.thorough
def test_a_warning_of_a_library_that_comes_over_and_over_is_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "discovery.log"

    with log_to(LogSettings(file=str(path)), {}):
        for number in range(10_000):
            warn("asyncio", number)

    for written in (capfd.readouterr().err, path.read_text("utf-8")):
        assert written.count("it failed") == 5
        assert written.count("9995 more warnings of asyncio") == 1


def test_other_warnings_pass_meanwhile(capfd: pytest.CaptureFixture[str]) -> None:
    with log_to(LogSettings(), {}):
        for _ in range(100):
            warn("uvicorn.error", "")
            warn("discovery_engine.test", "for us")
        warn_elsewhere("uvicorn.error")
        logging.getLogger("uvicorn.error").error("with a trace", exc_info=OSError())

    written = capfd.readouterr().err
    assert written.count("for us") == 100
    assert "it failed otherwise" in written
    assert "with a trace" in written


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
