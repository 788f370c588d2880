"""The metrics of a process in the text format of Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from discovery_engine.config.settings import LogSettings, Settings
from discovery_engine.store.call_log.call_log import CallLog
from discovery_engine.store.call_log.log_entry import LogEntry
from discovery_server.http.exposition import exposition

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("MTR-10")
async def test_the_number_of_series_is_bounded(tmp_path: Path) -> None:
    settings = Settings(log=LogSettings(calls="off"))
    log = CallLog(tmp_path, "here", lambda: settings)
    for number in range(3_000):
        log.record(LogEntry(1.0, "call", "s", f"tool_{number}", "ok", 0.01))
    await log.flush()
    text, _ = exposition(log, (), "")
    log.close()

    families = parse(text.decode())
    samples = [
        one for family in families for one in family.samples if one.name.endswith("calls_total")
    ]
    assert len(samples) <= 502
    assert sum(one.value for one in samples) == 3_000
