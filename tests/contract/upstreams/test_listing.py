"""Lists of tools: pages, malformed tools, hints, changes."""

from __future__ import annotations

from contextlib import ExitStack

import anyio
import pytest
from anyio.abc import TaskStatus

from discovery_engine.config.settings import Timeouts
from discovery_engine.errors import (
    FailureKind,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import (
    EventBus,
    ServerConnecting,
    ServerDiscovering,
    ServerStateChanged,
    ToolsChanged,
)
from tests.kinds import thinned
from tests.servers.programs import (
    call,
    eventually,
    fault_server,
    http_server,
    remote_server,
    sdk_server,
    upstreams,
)

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])


@ERAS
@pytest.mark.requirement("UPS-40")
async def test_a_malformed_tool_costs_itself_alone(era: str) -> None:
    async with upstreams() as opened:
        listing = await opened.list_tools(fault_server("bad_tools", era=era))

    assert [tool["name"] for tool in listing.tools] == ["first", "odd_description", "last"]
    assert "description" not in listing.tools[1]
    assert listing.tools[2]["vendor"] == {"kept": True}
    assert {tool.name: tool.reason for tool in listing.dropped} == {
        "#2": "its name is not a non-empty string",
        "#3": "its name is not a non-empty string",
        "#4": "it is not an object",
        "too_big": "it is larger than 64 KiB",
        "first": "an earlier tool has the same name",
    }


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mode", "count", "cut"),
    [
        pytest.param("ten_pages", 10, "", id="whole"),
        pytest.param("cursor_loop", 1, "its cursor 'again' repeats", id="loop"),
        pytest.param("endless_pages", 1000, "it has more than 1000 pages", id="endless"),
        pytest.param("listing_fails", 3, "page 2 failed: no such page", id="fails"),
        pytest.param("listing_hangs", 3, "no further page came within 3 s", id="hangs"),
    ],
)
@pytest.mark.requirement("UPS-41")
async def test_pages_are_read_to_the_end_and_kept_if_there_is_none(
    mode: str, count: int, cut: str
) -> None:
    server = fault_server(mode, timeouts=Timeouts(list=3 if mode == "listing_hangs" else 30))

    async with upstreams() as opened:
        with anyio.fail_after(60):
            listing = await opened.list_tools(server)

    assert len(listing.tools) == count
    assert listing.cut == cut


@pytest.mark.requirement("UPS-41")
async def test_a_list_that_never_begins_is_an_error() -> None:
    server = fault_server("listing_nonsense")

    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamProtocolError) as caught:
            await opened.list_tools(server)

    assert "no list of tools" in caught.value.message


@pytest.mark.requirement("UPS-41")
async def test_a_list_that_does_not_come_is_not_waited_for() -> None:
    server = fault_server("list_silent", timeouts=Timeouts(list=0.3))

    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamTimeoutError) as caught:
            await opened.list_tools(server)

    assert caught.value.seconds == 0.3


@ERAS
@pytest.mark.requirement("UPS-11")
async def test_a_server_that_dies_while_it_lists_is_lost(era: str) -> None:
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(fault_server("list_dies", era=era))

    assert caught.value.kind == FailureKind.LOST
    assert "it exited with status 6" in caught.value.reason


@pytest.mark.requirement("UPS-17")
async def test_a_list_turned_away_for_a_forgotten_session_is_asked_for_in_a_new_one() -> None:
    with http_server("forgets_lists") as url:
        async with upstreams() as opened:
            listing = await opened.list_tools(remote_server(url))

    assert len(listing.tools) == 1


@pytest.mark.requirement("UPS-42")
async def test_a_server_may_say_how_long_its_list_holds() -> None:
    async with upstreams() as opened:
        listing = await opened.list_tools(fault_server("ttl"))

    assert listing.ttl == 5.0


@ERAS
@pytest.mark.requirement("UPS-43")
async def test_a_storm_of_changes_is_told_once_until_the_tools_are_listed_again(era: str) -> None:
    server, events = fault_server("list_changed", era=era), EventBus()
    told: list[object] = []

    async with upstreams(events=events) as opened, anyio.create_task_group() as tasks:
        await tasks.start(_collect, events, told)
        for count in (1, 2):
            await opened.list_tools(server)
            await opened.call(server, "change", {})
            await eventually(lambda: told.count(ToolsChanged(server.name)) == count)  # noqa: B023
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    told = [event for event in told if not isinstance(event, ServerStateChanged)]
    listed_and_changed = [ServerDiscovering(server.name), ToolsChanged(server.name)]
    assert told == [ServerConnecting(server.name), *listed_and_changed, *listed_and_changed]


@pytest.mark.parametrize("carrier", thinned(["stdio", "http"]))
@pytest.mark.requirement("UPS-43")
async def test_changes_are_heard_of_a_server_that_wants_to_be_listened_to(carrier: str) -> None:
    events = EventBus()
    told: list[object] = []

    with ExitStack() as stack:
        server = sdk_server()
        if carrier == "http":
            url = stack.enter_context(http_server("http", program="sdk_server.py"))
            server = remote_server(f"{url}/mcp")
        async with upstreams(events=events) as opened, anyio.create_task_group() as tasks:
            await tasks.start(_collect, events, told)
            before = await opened.list_tools(server)
            await anyio.wait_all_tasks_blocked()
            await call(opened, server, "grow")
            await eventually(lambda: ToolsChanged(server.name) in told)
            after = await opened.list_tools(server)
            tasks.cancel_scope.cancel()

    assert before.instructions == "made with the SDK"
    assert [len(before.tools), len(after.tools)] == [1, 2]


async def _collect(events: EventBus, told: list[object], *, task_status: TaskStatus[None]) -> None:
    with events.subscribe() as news:
        task_status.started()
        while True:
            told.append(await anext(news))


@pytest.mark.requirement("UPS-44")
async def test_a_server_that_knows_no_tools_has_none() -> None:
    async with upstreams() as opened:
        listing = await opened.list_tools(fault_server("no_tools"))

    assert listing.tools == ()
