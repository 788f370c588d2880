"""Calls that break off: servers that die, time that runs out, callers who go away."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import Timeouts
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from tests.servers.programs import (
    Eras,
    call,
    eventually,
    fault_server,
    http_server,
    pid_of,
    remote_server,
    upstreams,
)

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        pytest.param("crash_call", "exited with status 7", id="crash"),
        pytest.param("partial_call", "exited with status 0", id="half-an-answer"),
        pytest.param("orphan_call", "exited with status 5", id="child-holds-the-pipes"),
    ],
)
@ERAS
@pytest.mark.requirement("UPS-14")
async def test_a_call_that_was_under_way_when_the_server_died_has_an_unknown_outcome(
    mode: str, said: str, era: str
) -> None:
    server = fault_server(mode, era=era)

    async with upstreams() as opened:
        first = await pid_of(opened, server)
        with anyio.fail_after(60), pytest.raises(OutcomeUnknownError) as caught:
            await call(opened, server)
        second = await pid_of(opened, server)

    assert said in caught.value.message
    assert first != second


@pytest.mark.parametrize("mode", ["reset_call", "cut_events", "fail_call"])
@pytest.mark.requirement("UPS-14")
async def test_a_call_whose_answer_breaks_off_has_an_unknown_outcome(mode: str) -> None:
    with http_server(mode) as url:
        async with upstreams() as opened:
            await opened.list_tools(remote_server(url))
            with anyio.fail_after(60), pytest.raises(OutcomeUnknownError):
                await call(opened, remote_server(url))
            listing = await opened.list_tools(remote_server(url))

    assert len(listing.tools) == 1


@pytest.mark.parametrize("mode", ["sse_ends", "sse_fails"])
@pytest.mark.requirement("UPS-14")
async def test_a_call_that_the_old_sse_transport_loses_has_an_unknown_outcome(mode: str) -> None:
    with http_server(mode) as url:
        async with upstreams() as opened:
            with anyio.fail_after(60), pytest.raises(OutcomeUnknownError):
                await call(opened, remote_server(url, kind="sse"))


@pytest.mark.requirement("UPS-14")
async def test_the_death_of_a_server_is_noticed_before_the_next_call() -> None:
    server = fault_server("die_after")

    async with upstreams() as opened:
        first = await call(opened, server)
        await eventually(lambda: not opened.sessions())
        second = await call(opened, server)

    assert first != second


async def test_a_call_that_was_turned_away_is_told_as_that() -> None:
    with http_server("unavailable_call") as url:
        async with upstreams() as opened:
            with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
                await call(opened, remote_server(url))

    assert caught.value.kind == FailureKind.HTTP


async def test_a_server_that_is_gone_before_a_call_is_refused_not_unknown() -> None:
    async with upstreams() as opened:
        with http_server("modern") as url:
            await opened.list_tools(remote_server(url))
        with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
            await call(opened, remote_server(url))

    assert caught.value.kind == FailureKind.REFUSED


@ERAS
@pytest.mark.requirement("UPS-15")
async def test_a_call_that_takes_too_long_is_cancelled_and_the_session_goes_on(era: str) -> None:
    server = fault_server("hang_call", era=era)
    hasty = replace(server, timeouts=Timeouts(call=0.3))

    async with upstreams() as opened:
        pid = await pid_of(opened, server)
        with anyio.fail_after(60), pytest.raises(UpstreamTimeoutError):
            await call(opened, hasty, "hang")
        cancelled = json.loads(await call(opened, server, "cancelled"))
        pid_after = opened.sessions()[server.name].pid

    assert len(cancelled) == 1
    assert pid == pid_after


@pytest.mark.requirement("UPS-15")
async def test_a_call_over_http_that_takes_too_long_is_given_up() -> None:
    with http_server("hang_call") as url:
        server = remote_server(url, timeouts=Timeouts(call=0.3))

        async with upstreams() as opened:
            with anyio.fail_after(60), pytest.raises(UpstreamTimeoutError):
                await call(opened, server)
            listing = await opened.list_tools(server)

    assert len(listing.tools) == 1


@ERAS
@pytest.mark.requirement("UPS-16")
async def test_a_caller_who_goes_away_cancels_the_call_and_nothing_else(era: str) -> None:
    server = fault_server("hang_call", era=era)

    async with upstreams() as opened:
        await opened.list_tools(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, opened, server, "hang")
            await eventually(lambda: opened.sessions()[server.name].users == 1)
            await anyio.wait_all_tasks_blocked()
            other = await call(opened, server, "other")
            tasks.cancel_scope.cancel()
        cancelled = json.loads(await call(opened, server, "cancelled"))

    assert other == "other"
    assert len(cancelled) == 1


@pytest.mark.requirement("UPS-16")
async def test_a_caller_who_goes_away_does_not_stop_the_start_for_the_others() -> None:
    server = fault_server()

    async with upstreams() as opened:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opened.list_tools, server)
            await eventually(lambda: server.name in opened.sessions())
            tasks.cancel_scope.cancel()
        listing = await opened.list_tools(server)

    assert len(listing.tools) == 3


@ERAS
@pytest.mark.requirement("UPS-17")
async def test_a_call_that_failed_at_the_server_is_not_made_again(era: str, tmp_path: Path) -> None:
    effects, eras = tmp_path / "effects", Eras()
    server = fault_server("obeys", program="wire_server.py", era=era, env={"EFFECTS": str(effects)})
    async with upstreams(eras=eras) as opened:
        await opened.list_tools(server)

    async with upstreams(eras=eras) as opened:  # what it speaks is remembered, and not yet proven
        with anyio.fail_after(60), pytest.raises(UpstreamProtocolError):
            await call(opened, server, "fail")

    assert effects.read_text("utf-8").splitlines() == ["{}"]


@pytest.mark.parametrize("mode", ["forgetful", "forgetful_400"])
@pytest.mark.requirement("UPS-17")
async def test_a_call_turned_away_for_a_forgotten_session_is_made_in_a_new_one(mode: str) -> None:
    with http_server(mode) as url:
        async with upstreams() as opened:
            answer = await call(opened, remote_server(url), text="hi")

    assert json.loads(answer) == {"text": "hi"}


@pytest.mark.requirement("UPS-14")
async def test_a_call_that_is_under_way_when_we_leave_has_an_unknown_outcome() -> None:
    server = fault_server("hang_call")
    caught: list[OutcomeUnknownError] = []

    async def hang() -> None:
        try:
            await call(opened, server, "hang")
        except OutcomeUnknownError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks, upstreams() as opened:
        await opened.list_tools(server)
        tasks.start_soon(hang)
        await eventually(lambda: opened.sessions()[server.name].users == 1)
        await anyio.wait_all_tasks_blocked()

    assert "its session was closed" in caught[0].message
