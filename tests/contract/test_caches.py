"""The snapshot is the cache of answers: how long it holds, and what replaces a part of it."""

from __future__ import annotations

import anyio
import pytest

from discovery_engine import Engine
from discovery_engine.errors import InvalidArgumentsError
from tests.engines import Changing, Folder, good, tool_names
from tests.factories import Clock
from tests.servers.programs import eventually, fault_server

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("CAC-1")
async def test_the_list_of_servers_holds_for_the_configured_time(folder: Folder) -> None:
    clock, changing = Clock(1_000_000.0), Changing.beside(folder.path, "a")
    folder.write(changing.server("clock"), cache={"ttl": 60})

    async with folder.open(clock=clock) as engine:
        await engine.refresh()
        changing.has("a", "b")
        clock.now += 59.9
        await engine.refresh(only_due=True)
        [fresh] = engine.view.servers()
        clock.now += 0.1
        await engine.refresh(only_due=True)
        [listed_again] = engine.view.servers()

    assert (fresh.tool_count, listed_again.tool_count) == (1, 2)
    assert changing.asked == 2


@pytest.mark.requirement("CAC-1")
async def test_a_server_may_ask_for_less_time_but_not_for_none(folder: Folder) -> None:
    clock = Clock(1_000_000.0)
    folder.write(fault_server("ttl", name="short"), cache={"ttl": 3600})

    async with folder.open(clock=clock) as engine:
        await engine.refresh()
        listed = []
        for _ in range(2):
            clock.now += 59.9
            await engine.refresh(only_due=True)
            listed.append(engine.view.server("short").listed_at)
            clock.now += 0.1
            await engine.refresh(only_due=True)
            listed.append(engine.view.server("short").listed_at)

    begin = 1_000_000.0
    assert listed == [begin, begin + 60, begin + 60, begin + 120]


def part_of(engine: Engine, server: str) -> object:
    return next(p for p in engine.view.catalog.parts.values() if p.server == server)


@pytest.mark.requirement("CAC-1")
async def test_a_server_that_changed_replaces_its_own_part_and_no_other(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "a")
    folder.write(changing.server("clock"), good("other"))

    async with folder.open() as engine:
        await engine.refresh()
        other = part_of(engine, "other")
        changing.has("b")
        await engine.refresh(["clock"])
        listed = await engine.list_tools("clock")
        kept = part_of(engine, "other")

    assert [entry.tool.name for entry in listed.entries] == ["b"]
    assert kept is other


@pytest.mark.requirement("CAC-1")
async def test_a_server_that_announces_a_change_is_listed_again(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "announce")
    folder.write(changing.server("clock"))

    async with folder.open() as engine, anyio.create_task_group() as tasks:
        await engine.refresh()
        tasks.start_soon(engine.run_maintenance)
        await anyio.wait_all_tasks_blocked()
        changing.has("announce", "new")
        await engine.execute("clock", "announce", {})
        await eventually(lambda: tool_names(engine.view, "clock") == ["announce", "new"])
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("CAC-3")
async def test_a_tool_holds_until_its_definition_changes(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "tell_time")
    folder.write(changing.server("clock"), trust="open")

    async with folder.open() as engine:
        await engine.refresh()
        first = await engine.details("clock", "tell_time")
        await engine.refresh()
        same = await engine.details("clock", "tell_time")
        changing.has("tell_time!zone")
        await engine.refresh()
        other = await engine.details("clock", "tell_time")

    assert same.tool == first.tool
    assert other.tool.fingerprint != first.tool.fingerprint
    assert [parameter.name for parameter in other.tool.parameters] == ["zone"]


@pytest.mark.requirement("CAC-3")
async def test_arguments_are_checked_against_the_newest_definition(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "tell_time!zone")
    folder.write(changing.server("clock"), trust="open")

    async with folder.open() as engine:
        await engine.refresh()
        await engine.execute("clock", "tell_time", {"zone": "UTC"})
        changing.has("tell_time!city")
        await engine.refresh()
        await engine.execute("clock", "tell_time", {"city": "Bern"})
        with pytest.raises(InvalidArgumentsError):
            await engine.execute("clock", "tell_time", {"zone": "UTC"})


@pytest.mark.requirement("CAC-3")
async def test_arguments_are_checked_without_those_that_the_owner_pins_now(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "tell_time!zone")
    folder.write(changing.server("clock"))

    async with folder.open() as engine:
        await engine.refresh()
        with pytest.raises(InvalidArgumentsError):
            await engine.execute("clock", "tell_time", {})
        pinned = [{"pattern": "tell_time", "arguments": {"zone": "UTC"}}]
        folder.write(changing.server("clock"), overrides=pinned)
        await engine.reload()
        await engine.execute("clock", "tell_time", {})


@pytest.mark.requirement("CAC-4")
async def test_a_search_answers_from_the_current_snapshot(folder: Folder) -> None:
    changing = Changing.beside(folder.path, "tell_time")
    folder.write(changing.server("clock"))

    async with folder.open() as engine:
        await engine.refresh()
        before = await engine.search("time")
        changing.has("set_alarm_time")
        await engine.refresh()
        after = await engine.search("time")

    assert [hit.entry.tool.name for hit in before.hits] == ["tell_time"]
    assert [hit.entry.tool.name for hit in after.hits] == ["set_alarm_time"]
