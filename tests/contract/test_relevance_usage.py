"""Tools that were found and then used: counted only if the owner wants it, and never for much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discovery_engine import Engine, stored_view
from discovery_engine.errors import InvalidArgumentsError
from tests.engines import Folder, good
from tests.servers.programs import eventually, fault_server

pytestmark = pytest.mark.anyio

LEARNING = {"search": {"learn": True, "minConfidence": 0}}
MOST = 0.02


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def use(engine: Engine, tool: str = "echo", **arguments: Any) -> None:
    """Search for a tool, and execute it."""
    await engine.search(tool)
    await engine.execute("good", tool, arguments)


async def counted(engine: Engine, *tools: str) -> None:
    """Wait until just these have been counted: no call waits for that."""
    await eventually(lambda: {str(key) for key in engine.view.usage} == {*tools})


@pytest.mark.requirement("REL-53")
async def test_of_two_that_fit_alike_the_used_one_is_first(folder: Folder) -> None:
    folder.write(good("a"), good(), **LEARNING)
    async with folder.open() as engine:
        await engine.refresh()
        before = (await engine.search("process number pid of it")).hits
        await engine.search("pid")
        await engine.execute("good", "pid", {})
        await counted(engine, "good:pid")
        after = (await engine.search("process number pid of it")).hits

    assert [str(hit.entry.key) for hit in before[:2]] == ["a:pid", "good:pid"]
    assert [str(hit.entry.key) for hit in after[:2]] == ["good:pid", "a:pid"]
    assert 0 < after[0].parts.usage <= MOST
    assert after[0].relevance == pytest.approx(before[0].relevance + after[0].parts.usage)


@pytest.mark.requirement("REL-55")
async def test_nothing_is_counted_or_counts_unless_it_is_wanted(folder: Folder) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
        await use(engine, "pid")
        folder.write(good(), **LEARNING)
        await engine.reload()
        await use(engine, text="x")
        await counted(engine, "good:echo")
        folder.write(good())
        await engine.reload()

        assert engine.view.usage == {}


@pytest.mark.requirement("REL-55")
async def test_what_was_counted_is_remembered_until_it_is_forgotten(folder: Folder) -> None:
    folder.write(good(), **LEARNING)
    async with folder.open() as engine:
        await engine.refresh()
        await use(engine, "pid")
        await counted(engine, "good:pid")

    view = stored_view(folder.config, data_dir=folder.data)
    assert view is not None
    assert {str(key) for key in view.usage} == {"good:pid"}
    async with folder.open() as engine:
        assert {str(key) for key in engine.view.usage} == {"good:pid"}
        await engine.forget(["good"])
        assert engine.view.usage == {}


@pytest.mark.requirement("REL-55")
async def test_only_a_success_soon_after_the_tool_was_found_is_counted(folder: Folder) -> None:
    now = [1_000.0]
    folder.write(fault_server("tool_error", name="bad"), good(), **LEARNING)
    async with folder.open(clock=lambda: now[0]) as engine:
        await engine.refresh()
        await engine.execute("good", "pid", {})
        await engine.search("pid")
        now[0] += 601
        await engine.execute("good", "pid", {})
        await engine.search("echo")
        await engine.execute("bad", "echo", {"text": "x"})
        with pytest.raises(InvalidArgumentsError):
            await engine.execute("good", "echo", {"text": 1})
        await use(engine, "environment")
        await counted(engine, "good:environment")
