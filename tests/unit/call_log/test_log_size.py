"""The size of the log while it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.config.settings import LogSettings, Settings
from discovery_engine.store.call_log.call_log import CallLog
from discovery_engine.store.call_log.log_entry import LogEntry
from discovery_engine.store.call_log.log_reader import LogReader

NOW = 1_700_000_000.0
LONG = "word " * 300


@pytest.mark.requirement("LOG-9")
def test_the_log_stays_within_its_size_while_it_is_written(tmp_path: Path) -> None:
    settings = Settings(log=LogSettings(max_mib=1))
    log = CallLog(tmp_path, "here", lambda: settings, clock=lambda: NOW)
    for number in range(4_000):
        log.record(LogEntry(NOW, "call", "git", "log", "ok", 0.25), {"text": f"{number} {LONG}"})
        if number % 200 == 0:
            assert log._writer.flush(60)
    assert log._writer.flush(60)
    # What is left of pruning is done beside it.
    log.record(LogEntry(NOW, "call", "git", "log", "ok", 0.25), {"text": "the last"})
    assert log._writer.flush(60)
    log.close()

    kept = list(LogReader(tmp_path, "here").all())
    assert kept[-1].arguments == {"text": "the last"}
    assert 100 < len(kept) < 2_500
    [metrics] = LogReader(tmp_path, "here").metrics()
    assert metrics.total.calls == 4_001 - log.dropped
    assert (tmp_path / "calls.db").stat().st_size < 4 * 1024 * 1024
