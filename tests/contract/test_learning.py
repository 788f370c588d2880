"""Tools that were found and then used: counted only if the owner wants it, and never for much."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.settings import SearchSettings
from discovery_engine.engine import Engine
from discovery_engine.errors import InvalidArgumentsError
from discovery_engine.runtime.restore import stored_view
from discovery_engine.search.ranking.hit_explanation import Reason
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from tests.contract.test_relevance import catalogs, queries, weights
from tests.engines import Folder, good
from tests.factories import make_catalog, make_entry, make_part
from tests.servers.programs import eventually, fault_server

LEARNING = {"search": {"learn": True, "minConfidence": 0}}
MOST = 0.02


def key(server: str, tool: str) -> ToolKey:
    return ToolKey(ServerName(server), ToolName(tool))


def searched(catalog, query: str, usage: Mapping[ToolKey, float], **options: Any):
    searcher = build_searcher(catalog, SearchSettings(**options))
    return searcher.search(searcher.analyze(query), limit=100, accepts=lambda _: True, usage=usage)


@pytest.mark.requirement("REL-53")
def test_of_two_that_fit_alike_the_used_one_is_first() -> None:
    catalog = make_catalog(make_part("a", "send_mail"), make_part("b", "send_mail"))

    plain = searched(catalog, "send a letter", {})
    used = searched(catalog, "send a letter", {key("b", "send_mail"): 0.5})

    assert [hit.entry.tool.server for hit in plain] == ["a", "b"]
    assert [hit.entry.tool.server for hit in used] == ["b", "a"]


@pytest.mark.thorough
@pytest.mark.requirement("REL-53")
@given(catalogs(), queries, weights, st.data())
def test_usage_adds_little_and_never_passes_what_fits_clearly_better(
    catalog, query, chosen, data
) -> None:
    usage = {entry.key: data.draw(st.floats(0, 1, exclude_max=True)) for entry in catalog}

    plain = {hit.entry.key: hit for hit in searched(catalog, query, {}, weights=chosen)}
    used = searched(catalog, query, usage, weights=chosen)

    assert {hit.entry.key for hit in used} == plain.keys()
    for hit in used:
        before = plain[hit.entry.key]
        assert 0 <= hit.relevance - before.relevance <= MOST + 1e-12
        assert hit.relevance <= 1 + 1e-12
        if before.parts.exact:
            assert hit == before
    named = [hit.entry.key for hit in used if hit.parts.exact]
    assert named == [k for k, hit in plain.items() if hit.parts.exact]
    rest = [plain[hit.entry.key].relevance for hit in used if not hit.parts.exact]
    assert all(later <= earlier + MOST for earlier, later in pairwise(rest))


@pytest.mark.requirement("REL-53")
def test_an_explanation_says_what_usage_adds() -> None:
    catalog = make_catalog(make_part("one", make_entry("send_mail", "one", description="a letter")))
    searcher = build_searcher(catalog, SearchSettings())

    query = searcher.analyze("send a letter")
    [hit] = searcher.search(
        query, limit=1, accepts=lambda _: True, usage={key("one", "send_mail"): 0.5}
    )
    explanation = searcher.explain(query, hit)

    [share] = [share for share in explanation.shares if share.reason is Reason.USED]
    assert share.adds == hit.parts.usage > 0
    assert str(share) == "it was found and used before"
    assert sum(share.adds for share in explanation.shares) == pytest.approx(hit.relevance, abs=1e-9)


@pytest.fixture
def folder(tmp_path) -> Folder:
    return Folder(tmp_path)


async def use(engine: Engine, tool: str = "echo", **arguments: Any) -> None:
    """Search for a tool, and execute it."""
    await engine.search(tool)
    await engine.execute("good", tool, arguments)


async def counted(engine: Engine, *tools: str) -> None:
    """Wait until just these have been counted: no call waits for that."""
    expected = {key("good", tool) for tool in tools}
    await eventually(lambda: set(engine.view.usage) == expected)


def rows(folder: Folder) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder.data / "registry.db")) as connection:
        return connection.execute("SELECT tool FROM uses").fetchall()


@pytest.mark.anyio
@pytest.mark.requirement("REL-54")
async def test_nothing_is_counted_unless_it_is_wanted(folder: Folder) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
        await use(engine, "pid")
        folder.write(good(), **LEARNING)
        await engine.reload()
        await use(engine, text="x")
        await counted(engine, "echo")
    assert rows(folder) == [("echo",)]


@pytest.mark.anyio
@pytest.mark.requirement("REL-55")
async def test_a_found_tool_that_was_used_is_counted_and_remembered(folder: Folder) -> None:
    folder.write(good(), **LEARNING)
    async with folder.open() as engine:
        await engine.refresh()
        await use(engine, "pid")
        await counted(engine, "pid")

        [first, *_] = (await engine.search("process number pid of it")).hits
        assert first.parts.usage > 0

    async with folder.open() as engine:
        assert set(engine.view.usage) == {key("good", "pid")}
    view = stored_view(folder.config, data_dir=folder.data)
    assert view is not None
    assert set(view.usage) == {key("good", "pid")}


@pytest.mark.anyio
@pytest.mark.requirement("REL-55")
async def test_a_tool_that_was_not_found_or_found_long_ago_is_not_counted(folder: Folder) -> None:
    now = [1_000.0]
    folder.write(good(), **LEARNING)
    async with folder.open(clock=lambda: now[0]) as engine:
        await engine.refresh()
        await engine.execute("good", "pid", {})
        await engine.search("pid")
        now[0] += 601
        await engine.execute("good", "pid", {})
        await use(engine, text="x")
        await counted(engine, "echo")


@pytest.mark.anyio
@pytest.mark.requirement("REL-55")
async def test_a_use_that_failed_is_not_counted(folder: Folder) -> None:
    folder.write(fault_server("tool_error", name="bad"), good(), **LEARNING)
    async with folder.open() as engine:
        await engine.refresh()
        await engine.search("echo")
        await engine.execute("bad", "echo", {"text": "x"})
        with pytest.raises(InvalidArgumentsError):
            await engine.execute("good", "echo", {"text": 1})
        await use(engine, "pid")
        await counted(engine, "pid")


@pytest.mark.anyio
@pytest.mark.requirement("REL-56")
async def test_what_was_counted_is_forgotten_with_the_tools(folder: Folder) -> None:
    folder.write(good(), **LEARNING)
    async with folder.open() as engine:
        await engine.refresh()
        await use(engine, "pid")
        await counted(engine, "pid")
        await engine.forget(["good"])

        assert engine.view.usage == {}
    assert rows(folder) == []


@pytest.mark.anyio
@pytest.mark.requirement("REL-56")
async def test_what_was_counted_is_not_used_once_it_is_not_wanted(folder: Folder) -> None:
    folder.write(good(), **LEARNING)
    async with folder.open() as engine:
        await engine.refresh()
        await use(engine, "pid")
        await counted(engine, "pid")
        folder.write(good())
        await engine.reload()

        assert engine.view.usage == {}
