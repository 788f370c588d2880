from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.store.call_log.log_database import LogDatabase, Retention
from discovery_engine.store.call_log.log_entry import LogEntry
from discovery_engine.store.call_log.log_reader import LogReader
from discovery_engine.store.call_log.log_writer import LogWriter
from tests.power_cuts import recorded_disk

ENTRIES = 40


@pytest.mark.thorough
@pytest.mark.requirement("LOG-6")
def test_a_power_cut_costs_the_newest_entries_alone(tmp_path: Path) -> None:
    with recorded_disk(tmp_path / "data") as disk:
        database = LogDatabase(tmp_path / "data", "here")
        writer = LogWriter(database, Retention, lambda: "full", clock=lambda: 2000.0)
        for number in range(ENTRIES):
            entry = LogEntry(1000.0 + number, "call", "server", f"tool{number}", "ok")
            writer.record(entry, {"text": "x" * 3000}, None, is_known=True)
            assert writer.flush(60.0)
        writer.close(60.0)

    kept = []
    for image in disk.images(seed=17, count=100):
        folder = tmp_path / f"cut-{image.cut}"
        image.write_to(folder)
        database = LogDatabase(folder, "here")
        database.check()
        database.close()
        found = [entry.tool for entry in LogReader(folder, "here").all()]

        assert found == [f"tool{number}" for number in range(len(found))]
        assert not database.file.was_damaged
        kept.append(len(found))
    assert max(kept) > ENTRIES / 2
