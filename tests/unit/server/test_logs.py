from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.config.settings import LogSettings
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.upstream import stderr_log as overheard
from discovery_server.logs import log_to
from tests.rows import rows

pytestmark = pytest.mark.requirement("SRV-5")

log = logging.getLogger("discovery_engine.test")


def test_stderr_is_written_and_stdout_never(capfd: pytest.CaptureFixture[str]) -> None:
    with log_to(LogSettings(), {}):
        log.info("told")
        log.debug("not told")

    captured = capfd.readouterr()
    assert "INFO    discovery_engine.test: told" in captured.err
    assert "not told" not in captured.err
    assert captured.out == ""


@pytest.mark.requirement("CLI-10")
def test_words_of_a_server_can_neither_command_a_terminal_nor_fake_a_record(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "discovery.log"

    with log_to(LogSettings(file=str(path)), {}):
        log.info("it said %s", "\x1b]0;x\x07hello\n2026-11-22 INFO discovery: all is well")

    for written in (capfd.readouterr().err, path.read_text(encoding="utf-8")):
        assert "it said hello\n    2026-11-22 INFO discovery: all is well\n" in written
        assert "\x1b" not in written


def test_file_is_written_instead_and_its_folder_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "discovery.log"

    with log_to(LogSettings(file=str(path), stderr=False), {}):
        log.info("told")

    assert "told" in path.read_text(encoding="utf-8")
    assert capfd.readouterr().err == ""


def test_environment_overrides_file_and_level(tmp_path: Path) -> None:
    path = tmp_path / "other.log"
    environ = {"DISCOVERY_LOG_FILE": str(path), "DISCOVERY_LOG_LEVEL": "error"}

    with log_to(LogSettings(level="debug", file=str(tmp_path / "one.log")), environ):
        log.warning("not told")
        log.error("told")

    assert "not told" not in path.read_text(encoding="utf-8")
    assert not (tmp_path / "one.log").exists()


def test_a_file_that_cannot_be_written_is_warned_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    for path in (tmp_path, tmp_path / "file" / "discovery.log"):
        with log_to(LogSettings(file=str(path)), {}):
            log.info("told")
        captured = capfd.readouterr().err
        assert f"WARNING discovery_server.logs: The log file {path} cannot be written: " in captured
        assert "INFO    discovery_engine.test: told" in captured


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_disk_that_is_full_is_warned_of_once(capfd: pytest.CaptureFixture[str]) -> None:
    written = threading.Event()

    class Watcher(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "discovery_server.log_file":
                written.set()

    with log_to(LogSettings(file="/dev/full"), {}):
        watcher = Watcher()
        logging.getLogger().addHandler(watcher)  # behind the one that writes to stderr
        for _ in range(100):
            log.info("told")
        assert written.wait(30)
        logging.getLogger().removeHandler(watcher)

    captured = capfd.readouterr().err
    warning = "WARNING discovery_server.log_file: The log file /dev/full cannot be written: "
    assert captured.count(warning) == 1
    assert captured.count("test: told") == 100
    assert "Traceback" not in captured


def test_unknown_level_is_taken_as_info(capfd: pytest.CaptureFixture[str]) -> None:
    with log_to(LogSettings(), {"DISCOVERY_LOG_LEVEL": "loud"}):
        log.info("told")

    assert "told" in capfd.readouterr().err


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


@pytest.mark.requirement("HEA-15")
@pytest.mark.parametrize(
    "message",
    [
        "A request from 127.0.0.1 was refused (401)",
        "server 'a' is unavailable: headers.Authorization: ${TOKEN_OF_A} is not set",
    ],
)
def test_a_record_that_holds_no_secret_can_be_read(
    message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with log_to(LogSettings(), {}):
        logging.getLogger("discovery_server.http.authorization").warning("%s", message)

    assert f"discovery_server.http.authorization: {message}\n" in capfd.readouterr().err


# A process of its own: records of what other tests left behind would fill the file, too.
_TWO_LINES = """
import logging, sys, threading
from discovery_engine.config.settings import LogSettings
from discovery_server.logs import log_to

with log_to(LogSettings(file=sys.argv[1], stderr=False), {}):
    logging.getLogger("discovery_engine.test").info("the last")
    logging.getLogger("discovery_engine.test").info("x" * 200)
    writers = [thread for thread in threading.enumerate() if thread.name == "log"]
for writer in writers:
    writer.join()  # the end of the log waits for a second only
"""


def test_file_rotates_at_ten_megabytes_and_five_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "discovery.log"
    older = [path.with_name(f"discovery.log.{number}") for number in range(1, 6)]
    for file in older:
        file.write_text(file.name, "utf-8")
    with path.open("wb") as full:
        full.truncate(10 * 1024 * 1024 - 200)  # bytes: room for one line

    subprocess.run([sys.executable, "-c", _TWO_LINES, path], check=True)

    assert sorted(tmp_path.iterdir()) == [path, *older]
    assert 200 < path.stat().st_size < 1000
    assert older[0].read_bytes().endswith(b"the last\n")
    assert [file.read_text("utf-8") for file in older[1:]] == [file.name for file in older[:-1]]


def test_loggers_are_left_as_they_were() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("mcp").level)

    with log_to(LogSettings(level="debug"), {}):
        assert logging.getLogger("mcp").level == logging.WARNING

    assert (root.level, list(root.handlers), logging.getLogger("mcp").level) == before


@pytest.mark.requirement("UPS-25")
@pytest.mark.parametrize(("level", "is_shown"), [("info", False), ("debug", True)])
def test_what_programs_write_goes_to_the_file_and_to_stderr_only_for_developers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], level: Any, is_shown: bool
) -> None:
    path = tmp_path / "discovery.log"

    with log_to(LogSettings(level=level, file=str(path)), {}):
        logging.getLogger(overheard.__name__).info("github: hello")

    assert "github: hello" in path.read_text(encoding="utf-8")
    assert ("github: hello" in capfd.readouterr().err) is is_shown
