"""Servers are asked once at a time, and what they tell is taken into the view."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import anyio
import pytest

from discovery_engine.asking import Asking
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError, UpstreamError
from discovery_engine.late_upstreams import LateUpstreams
from discovery_engine.refresh import Told
from discovery_engine.registry.store import Store
from discovery_engine.status import ServerStatus
from discovery_engine.tools import ServerName
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.state import Condition
from tests.factories import make_server, make_settings, tool_names
from tests.unit.swaps import HeldStore, current_view, everybody_waits, lists

pytestmark = pytest.mark.anyio

A, B = ServerName("a"), ServerName("b")


class Upstreams:
    """Servers that list what they have, those in `gates` not before they are opened."""

    def __init__(self) -> None:
        self.tools = {A: ["one"], B: ["two"]}
        self.gates: dict[ServerName, anyio.Event] = {}
        self.asked: list[str] = []
        self.odd: set[ServerName] = set()

    async def list_tools(self, server: ServerSettings) -> Listing:
        self.asked.append(getattr(server.transport, "command", ""))
        names = self.tools.get(server.name)
        if server.name in self.odd:
            raise OverflowError("int too large")
        if gate := self.gates.get(server.name):
            await gate.wait()
        if names is None:
            raise UnavailableError(server.name, FailureKind.REFUSED, "refused")
        return cast("Listing", lists(server, *names).outcome)

    def insist(self, server: ServerName) -> None:
        pass

    def conditions(self) -> Mapping[ServerName, Condition]:
        return {}


class House:
    """All that asking has to do with."""

    def __init__(self) -> None:
        self.upstreams = Upstreams()
        self.told: list[Told] = []
        self.now = 1000.0

    @asynccontextmanager
    async def opened(self, store: Store | None = None) -> AsyncIterator[Asking]:
        self.current = await current_view(make_settings("a", "b"), store)
        async with anyio.create_task_group() as tasks:
            upstreams = cast("LateUpstreams", self.upstreams)
            with anyio.fail_after(30):
                yield Asking(
                    self.current,
                    upstreams,
                    tasks,
                    taken=self.told.append,
                    clock=lambda: self.now,
                )

    def tools(self, server: ServerName) -> list[str]:
        return list(tool_names(self.current.view.catalog.part(server).entries))


@pytest.fixture
def house() -> House:
    return House()


async def test_all_who_want_to_know_at_once_share_one_listing(house: House) -> None:
    house.upstreams.gates[A] = gate = anyio.Event()

    async with house.opened() as asking, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(asking.get_to_know, A)
            tasks.start_soon(asking.reach, A)
        await anyio.wait_all_tasks_blocked()
        seen = asking.live()[A].status
        gate.set()

    assert seen is ServerStatus.STARTING
    assert house.upstreams.asked == ["a-mcp-server"]
    assert house.tools(A) == ["one"]
    assert [told.server.name for told in house.told] == [A]


async def test_who_tells_of_a_change_is_asked_once_more_after_a_listing_under_way(
    house: House,
) -> None:
    house.upstreams.gates[A] = gate = anyio.Event()

    async with house.opened() as asking, anyio.create_task_group() as tasks:
        tasks.start_soon(asking.reach, A)
        await anyio.wait_all_tasks_blocked()
        house.upstreams.tools[A] = ["new"]
        tasks.start_soon(asking.anew, A)
        await anyio.wait_all_tasks_blocked()
        gate.set()

    assert len(house.upstreams.asked) == 2
    assert house.tools(A) == ["new"]


async def test_a_server_that_is_reached_in_another_way_meanwhile_is_asked_there(
    house: House,
) -> None:
    house.upstreams.gates[A] = gate = anyio.Event()

    async with house.opened() as asking, anyio.create_task_group() as tasks:
        tasks.start_soon(asking.reach, A)
        await anyio.wait_all_tasks_blocked()
        moved = make_server("a", transport=StdioTransport(command="elsewhere"))
        await house.current.adopt(make_settings(moved))
        gate.set()

    assert house.upstreams.asked == ["a-mcp-server", "elsewhere"]
    assert len(house.told) == 1


async def test_a_server_that_is_gone_meanwhile_tells_nothing(house: House) -> None:
    house.upstreams.gates[A] = gate = anyio.Event()

    async with house.opened() as asking, anyio.create_task_group() as tasks:
        tasks.start_soon(asking.reach, A)
        await anyio.wait_all_tasks_blocked()
        await house.current.adopt(make_settings("b"))
        gate.set()

    assert house.told == []


async def test_why_a_server_cannot_be_reached_is_told_to_each_who_asks(house: House) -> None:
    del house.upstreams.tools[A]

    async with house.opened() as asking:
        for _ in range(2):
            with pytest.raises(UpstreamError):
                await asking.reach(A)

    assert len(house.upstreams.asked) == 2


@pytest.mark.requirement("UPS-13")
async def test_what_nobody_thought_of_is_a_failure_of_that_server_alone(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.upstreams.odd.add(A)

    async with house.opened() as asking:
        report = await asking.refresh(None)
        with pytest.raises(UnavailableError, match="OverflowError"):
            await asking.reach(A)

    assert [failure and failure.code for _, failure in report.servers] == [
        UnavailableError.code,
        None,
    ]
    assert house.tools(B) == ["two"]
    assert "Traceback" in caplog.text


async def test_a_server_that_is_known_or_has_failed_is_not_waited_for(house: House) -> None:
    del house.upstreams.tools[A]

    async with house.opened() as asking:
        await asking.all_known()
        await asking.all_known()

    assert len(house.upstreams.asked) == 2
    assert house.tools(B) == ["two"]


@pytest.mark.requirement("CLI-29")
async def test_a_server_that_is_too_slow_counts_as_failed_until_it_is_heard(house: House) -> None:
    house.upstreams.gates[A] = gate = anyio.Event()

    async with house.opened() as asking:
        report = await asking.refresh(None, patience=0.01)
        [slow, quick] = [house.current.view.catalog.part(name) for name in (A, B)]
        gate.set()
        await asking.get_to_know(A)

    assert slow.failure is not None
    assert "refresh" in slow.failure.hint
    assert dict(report.servers)[A] == slow.failure
    assert quick.failure is None
    assert house.tools(A) == ["one"]
    assert house.current.view.catalog.part(A).failure is None


@pytest.mark.requirement("CLI-29")
async def test_a_server_that_has_answered_is_not_too_slow(house: House) -> None:
    store = HeldStore()

    async with house.opened(store) as asking, anyio.create_task_group() as tasks:
        store.hold()
        tasks.start_soon(asking.reach, B)
        await store.is_held()
        tasks.start_soon(asking.reach, A)
        await everybody_waits()  # its tools are known, and wait to be taken in
        tasks.start_soon(partial(asking.refresh, [A], patience=0.0))
        await everybody_waits()
        store.release()

    assert house.current.view.catalog.part(A).failure is None
    assert house.tools(A) == ["one"]


async def test_the_rest_lasts_until_the_first_server_is_due(house: House) -> None:
    async with house.opened() as asking:
        due = asking.rest()
        await asking.refresh(None, only_due=True)
        house.now += 10.0
        rested = asking.rest()

    assert due <= 0
    assert rested == house.current.view.settings.cache.ttl - 10.0
