from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from discovery_engine.config.settings import LogSettings
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_server.logs import EACH_LINE, RepeatFilter, log_to
from tests.rows import rows

pytestmark = pytest.mark.requirement("SRV-5")

log = logging.getLogger("discovery_engine.test")


@pytest.mark.requirement("CLI-10")
def test_words_of_a_server_can_neither_command_a_terminal_nor_fake_a_record(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "discovery.log"

    with log_to(LogSettings(file=str(path)), {}):
        log.info("it said %s", "\x1b]0;x\x07hello\n2026-11-22 INFO discovery: all is well")
        log.info("a call\nanother call", extra=EACH_LINE)

    for written in (capfd.readouterr().err, path.read_text(encoding="utf-8")):
        assert "it said hello\n    2026-11-22 INFO discovery: all is well\n" in written
        assert written.count(" INFO    discovery_engine.test: ") == 3
        assert "\x1b" not in written


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_disk_that_is_full_is_warned_of_once(capfd: pytest.CaptureFixture[str]) -> None:
    written = threading.Event()

    class Watcher(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "discovery_server.logs":
                written.set()

    with log_to(LogSettings(file="/dev/full"), {}):
        watcher = Watcher()
        logging.getLogger().addHandler(watcher)  # behind the one that writes to stderr
        for _ in range(100):
            log.info("told")
        assert written.wait(30)
        logging.getLogger().removeHandler(watcher)

    captured = capfd.readouterr().err
    warning = "WARNING discovery_server.logs: The log file /dev/full cannot be written: "
    assert captured.count(warning) == 1
    assert captured.count("test: told") == 100
    assert "Traceback" not in captured


@pytest.mark.requirement("HEA-15")
@rows(
    ("message", "written"),
    [
        (
            "GET https://bob:pw@h.example.com/a?key=k1&page=2#f",
            "https://••••@h.example.com/a?key=••••",
        ),
        ("headers=[(b'set-cookie', b'sid=abc'), (b'date', b'x')]", "(b'set-cookie', b'••••')"),
        ("{'Authorization': 'Strange abc'}", "{'Authorization': '••••'}"),
        ("sent Bearer abcdefgh1234", "sent Bearer ••••"),
        ("Received session ID: abc123", "Received session ID: ••••"),
        ("what it sent: canary-of-logs-7", "what it sent: ••••"),
        ("canary-\x1b[1mof-logs-7", ": ••••"),
    ],
)
def test_what_libraries_send_is_redacted_at_every_level(
    tmp_path: Path, message: str, written: str
) -> None:
    path = tmp_path / "discovery.log"
    KNOWN_SECRETS.add(["canary-of-logs-7"], [])

    with log_to(LogSettings(level="debug", file=str(path), stderr=False), {}):
        logging.getLogger("somelibrary").debug("%s", message)
        log.error("It failed", exc_info=ValueError(message))

    assert path.read_text("utf-8").count(written.removeprefix(": ")) == 2


def test_each_minute_is_told_of_anew(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    repeats = RepeatFilter(clock=lambda: now)
    caplog.handler.addFilter(repeats)
    try:
        for minute in range(3):
            now = minute * 60.0
            for _ in range(100):
                logging.getLogger("mcp.server").warning("it failed")
    finally:
        caplog.handler.removeFilter(repeats)

    told = [text for record in caplog.records if "suppressed" in (text := record.getMessage())]
    assert [words.partition(" like")[0] for words in told] == ["95 more warnings of mcp.server"] * 2
    assert len(caplog.records) == 3 * 5 + 2
