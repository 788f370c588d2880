"""Changes of the configuration in the library: `engine.changes`, without and with `async`."""

from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine import load_settings, open_engine
from discovery_engine.errors import ConfigurationError, PlanChangedError
from discovery_engine.sync import open_engine as open_sync
from tests.engines import Folder, good

pytestmark = pytest.mark.anyio
HIDE_ECHO = {"toolRules": "- {pattern: echo, enabled: false}"}


@pytest.mark.requirement("API-42")
async def test_settings_that_a_program_gave_are_not_changed_by_way_of_their_file(
    folder: Folder,
) -> None:
    folder.write(good())
    before = folder.config.read_bytes()
    settings = load_settings(folder.config)
    async with open_engine(settings, data_dir=folder.data) as engine:
        with pytest.raises(ConfigurationError, match="given by the program"):
            await engine.changes.plan(HIDE_ECHO)

    assert folder.config.read_bytes() == before


@pytest.mark.requirement("API-42")
async def test_without_a_file_nothing_can_be_changed(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": ""}
    async with open_engine(None, data_dir=tmp_path, environ=environ) as engine:
        for verb in (engine.changes.sections, engine.cases.list):
            with pytest.raises(ConfigurationError, match="no file"):
                await verb()


@pytest.mark.requirement("API-42")
def test_a_change_is_planned_and_applied_without_async(folder: Folder) -> None:
    folder.write(good())
    with open_sync(folder.config, data_dir=folder.data) as engine:
        engine.refresh()
        planned = engine.changes.plan(HIDE_ECHO)
        [move] = engine.changes.compare(planned.projection, ["echo"])
        with pytest.raises(PlanChangedError):
            planned.require_shown("another")
        assert [one.hit.entry.tool.name for one in engine.examine("echo").hidden] == []
        engine.changes.apply(planned)
        hidden = engine.examine("echo").hidden

    assert (move.before[0], move.after) == ("good:echo", ())
    assert [(one.hit.entry.tool.name, one.rank) for one in hidden] == [("echo", 1)]
    assert b"echo" in folder.config.read_bytes()
