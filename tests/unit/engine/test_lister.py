"""Servers are asked once at a time, and what they tell is taken into the view."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from discovery_engine.config.settings import ServerSettings
from discovery_engine.engine import upstreams as entry
from discovery_engine.engine.ingestion.server_parts import ListingResult
from discovery_engine.engine.lister import ServerLister
from discovery_engine.errors import FailureKind, UnavailableError, UpstreamError
from discovery_engine.store.registry import Registry
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.state import ServerState, StateInfo
from tests.factories import make_settings, tool_names
from tests.servers.programs import eventually
from tests.unit.swaps import current_view, lists

pytestmark = pytest.mark.anyio

A, B = ServerName("a"), ServerName("b")


class Upstreams:
    """Servers that list what they have, those in `gates` not before they are opened."""

    def __init__(self) -> None:
        self.tools = {A: ["one"], B: ["two"]}
        self.gates: dict[ServerName, anyio.Event] = {}
        self.asked: list[str] = []
        self.expected: dict[str, Any] = {}
        self.odd: set[ServerName] = set()
        self.seconds: dict[ServerName, float] = {}
        self.states: dict[ServerName, ServerState] = {}

    async def list_tools(self, server: ServerSettings, declared: object = None) -> Listing:
        self.asked.append(getattr(server.transport, "command", ""))
        names = self.tools.get(server.name)
        if server.name in self.odd:
            raise OverflowError("int too large")
        if gate := self.gates.get(server.name):
            await gate.wait()
        if names is None:
            raise UnavailableError(server.name, FailureKind.REFUSED, "refused")
        return cast("Listing", lists(server, *names).outcome)

    def reset_backoff(self, server: ServerName) -> None:
        pass

    def redacted(self, error: UpstreamError) -> UpstreamError:
        return error

    def live(self, name: ServerName) -> StateInfo | None:
        return StateInfo(self.states[name]) if name in self.states else None

    def startup(self, name: ServerName) -> StateInfo:
        return StateInfo(ServerState.STARTING, starting_for=self.seconds.get(name))


class Setup:
    """A lister with fake servers."""

    def __init__(self) -> None:
        self.upstreams = Upstreams()
        self.told: list[ListingResult] = []
        self.now = 1000.0

    @asynccontextmanager
    async def opened(self, store: Registry | None = None) -> AsyncIterator[ServerLister]:
        self.current = await current_view(make_settings("a", "b"), store)
        async with anyio.create_task_group() as tasks:
            upstreams = cast("entry.Upstreams", self.upstreams)
            with anyio.fail_after(60):
                yield ServerLister(
                    self.current,
                    upstreams,
                    tasks,
                    complete=checkpoint,
                    on_applied=self.told.append,
                    clock=lambda: self.now,
                )

    def tools(self, server: ServerName) -> list[str]:
        return list(tool_names(self.current.view.catalog.part(server).entries))


@pytest.fixture
def setup() -> Setup:
    return Setup()


async def test_who_tells_of_a_change_is_asked_once_more_after_a_listing_under_way(
    setup: Setup,
) -> None:
    setup.upstreams.gates[A] = gate = anyio.Event()

    async with setup.opened() as lister, anyio.create_task_group() as tasks:
        tasks.start_soon(lister.list_server, A)
        await anyio.wait_all_tasks_blocked()
        setup.upstreams.tools[A] = ["new"]
        tasks.start_soon(lister.relist, A)
        await anyio.wait_all_tasks_blocked()
        gate.set()

    assert len(setup.upstreams.asked) == 2
    assert setup.tools(A) == ["new"]


@pytest.mark.requirement("UPS-13")
async def test_what_nobody_thought_of_is_a_failure_of_that_server_alone(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.upstreams.odd.add(A)

    async with setup.opened() as lister:
        report = await lister.refresh(None)
        with pytest.raises(UnavailableError, match="OverflowError"):
            await lister.list_server(A)

    assert [failure and failure.code for _, failure in report.servers] == [
        UnavailableError.code,
        None,
    ]
    assert setup.tools(B) == ["two"]
    assert "Traceback" in caplog.text


@pytest.mark.requirement("LIB-37")
async def test_waiting_for_a_turn_to_start_takes_nothing_from_the_wait(setup: Setup) -> None:
    setup.upstreams.gates = {A: anyio.Event(), B: anyio.Event()}
    setup.upstreams.seconds[A] = 100.0  # it has long been starting; B waits for its place
    reports = []

    async def refresh(lister: ServerLister) -> None:
        reports.append(await lister.refresh(None, max_wait=50.0))

    async with setup.opened() as lister, anyio.create_task_group() as tasks:
        tasks.start_soon(refresh, lister)
        await anyio.wait_all_tasks_blocked()
        are_waited_for = not reports
        setup.upstreams.gates[B].set()
        await eventually(lambda: bool(reports))
        setup.upstreams.gates[A].set()

    assert are_waited_for
    assert reports[0].starting == (A,)


async def test_the_rest_lasts_until_the_first_server_is_due(setup: Setup) -> None:
    async with setup.opened() as lister:
        due = lister.seconds_until_due()
        await lister.refresh(None, only_due=True)
        setup.now += 10.0
        rested = lister.seconds_until_due()

    assert due <= 0
    assert rested == setup.current.view.settings.cache.ttl - 10.0
