"""What changes while a host runs: specs/watching.md, on real files and real servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from discovery_engine import Engine, open_engine
from discovery_engine.events import (
    CatalogChanged,
    ConfigurationRejected,
    ConfigurationReloaded,
    ServerConnected,
)
from tests.engines import Changing, Folder, entry, good, heard, pid_of, tool_names
from tests.servers.programs import text_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def kept_fresh(folder: Folder, *servers: str) -> AsyncIterator[Engine]:
    """An engine that follows what changes, and has listed some servers."""
    async with folder.open() as engine, anyio.create_task_group() as tasks:
        with engine.subscribe() as events:
            tasks.start_soon(engine.run_maintenance)
            for _ in servers:
                await heard(events, ServerConnected)
        yield engine
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("WAT-10")
async def test_an_edit_is_followed_and_an_unchanged_server_keeps_its_process(
    folder: Folder,
) -> None:
    folder.write(good("same"), good("other"))

    async with kept_fresh(folder, "same", "other") as engine:
        before = await pid_of(engine, "same"), await pid_of(engine, "other")
        with engine.subscribe() as events:
            other = good("other", env={"ANOTHER": "one"})
            folder.write(good("same", tags=("x",)), other, good("new"))
            await heard(events, ConfigurationReloaded)
            await heard(events, ServerConnected, "new")
        after = await pid_of(engine, "same"), await pid_of(engine, "other")
        tags = engine.view.server("same").tags

    assert before[0] == after[0]
    assert before[1] != after[1]
    assert tags == ("x",)


@pytest.mark.requirement("WAT-12")
async def test_a_bad_edit_keeps_the_last_good_configuration_and_reports_it(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write(good())

    async with kept_fresh(folder, "good") as engine:
        pid = await pid_of(engine, "good")
        with engine.subscribe() as events:
            folder.config.write_text('{"servers": {"good": {}},\n "toolRules": 7}', "utf-8")
            rejected = await heard(events, ConfigurationRejected)
            broken = await engine.toolset().call_as_result("list_mcp_servers", {})
            same = await pid_of(engine, "good")
            folder.write(good())
            await heard(events, ConfigurationReloaded)
        mended = await engine.toolset().call_as_result("list_mcp_servers", {})

    assert [problem.subject for problem in rejected.problems] == ["servers.good", "toolRules"]
    assert same == pid
    assert "the configuration has errors since" in text_of(broken)
    assert ": discovery.yaml:1:" in text_of(broken)
    assert str(folder.path) not in text_of(broken)
    [notice] = broken["_meta"]["discovery/answer"]["notices"]
    assert notice["kind"] == "configuration"
    assert "Note" not in text_of(mended)
    assert f"{folder.config}:2:" in caplog.text


@pytest.mark.requirement("WAT-13")
async def test_a_file_in_use_that_is_gone_changes_nothing(folder: Folder) -> None:
    folder.write(good())

    async with kept_fresh(folder, "good") as engine:
        pid = await pid_of(engine, "good")
        with engine.subscribe() as events:
            await anyio.Path(folder.config).unlink()
            rejected = await heard(events, ConfigurationRejected)
        assert await pid_of(engine, "good") == pid

    assert rejected.problems[0].origin.file == str(folder.config)


@pytest.mark.requirement("WAT-13")
async def test_no_file_slips_in_before_the_one_in_use(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = folder.path / "home", folder.path / "work"
    usual = home / "discovery" / "discovery.yaml"
    usual.parent.mkdir(parents=True)
    work.mkdir()
    usual.write_text(json.dumps({"servers": {"good": entry(good())}}), "utf-8")
    monkeypatch.chdir(work)
    environ = {"XDG_CONFIG_HOME": str(home), "HOME": str(home)}

    async with opened_anywhere(folder, environ) as engine:
        used = engine.settings.path
        other = "{servers: {bad: {command: touch, args: [marker]}}}"
        (work / "discovery.yaml").write_text(other, "utf-8")
        with pytest.raises(Exception, match="would take its place"):
            await engine.reload()

        assert engine.settings.path == used
        assert not await anyio.Path("marker").exists()


@pytest.mark.requirement("WAT-20")
async def test_a_storm_of_changes_leaves_the_calls_of_others_as_they_are(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "announce")
    folder.write(changing.server("stormy"), good("calm"))

    async with kept_fresh(folder, "stormy", "calm") as engine:
        pid = await pid_of(engine, "calm")
        asked = changing.asked
        with engine.subscribe() as events:
            changing.has("announce", "newest")
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(engine.execute, "stormy", "announce", {})
                pids = {await pid_of(engine, "calm") for _ in range(100)}
            await heard(events, CatalogChanged)
        listings = changing.asked - asked

    assert pids == {pid}
    assert tool_names(engine.view, "stormy") == ["announce", "newest"]
    assert listings < 8


@asynccontextmanager
async def opened_anywhere(folder: Folder, environ: dict[str, str]) -> AsyncIterator[Engine]:
    """An engine that looks for its configuration itself."""
    async with open_engine(data_dir=folder.data, environ=environ) as engine:
        assert "good" in {server.name for server in engine.settings.servers}
        yield engine
