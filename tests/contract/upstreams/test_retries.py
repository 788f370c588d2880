"""Servers that fail again and again, and servers that are asked too much at once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import Limits, ServerSettings, Timeouts
from discovery_engine.errors import (
    FailureKind,
    NeedsAuthError,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import EventBus, ServerConnecting, ServerStateChanged
from discovery_engine.upstream.history import Policy
from discovery_engine.upstream.state import ServerState
from discovery_engine.upstream.upstreams import Upstreams
from tests.servers.programs import (
    call,
    eventually,
    fault_server,
    http_server,
    pid_of,
    remote_server,
    upstreams,
)

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def policy(clock: Clock) -> Policy:
    return Policy(clock=clock, random=lambda: 0.0)


async def failure_of(
    opened: Upstreams, server: ServerSettings, tool: str = "echo"
) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await call(opened, server, tool)
    return caught.value


def heard(subscription) -> list[object]:
    return list(subscription._events)


@pytest.mark.requirement("UPS-60")
async def test_a_server_that_failed_twice_is_not_tried_at_once_and_the_caller_is_told_when() -> (
    None
):
    clock, events, server = Clock(), EventBus(), fault_server("crash_start")

    with events.subscribe() as told:
        async with upstreams(policy=policy(clock), events=events) as opened:
            for _ in range(2):
                await failure_of(opened, server)
            refused = await failure_of(opened, server)
            clock.now = 1.0
            tried = await failure_of(opened, server)
        starts = heard(told).count(ServerConnecting(server.name))

    assert isinstance(refused, UnavailableError)
    assert refused.kind is FailureKind.EXITED
    assert "exited with status 3" in refused.reason
    assert "next try in 1 s" in refused.reason
    assert refused.retry_after == 1.0
    assert "next try" not in tried.message
    assert starts == 3


@pytest.mark.requirement("UPS-60")
async def test_a_refusal_to_try_keeps_what_the_owner_has_to_do() -> None:
    with http_server("status_401") as url:
        async with upstreams(policy=policy(Clock())) as opened:
            told = [await failure_of(opened, remote_server(url)) for _ in range(3)]

    assert all(isinstance(error, NeedsAuthError) for error in told)
    assert "next try" in told[-1].message


@pytest.mark.requirement("UPS-61")
async def test_a_program_that_dies_five_times_in_two_minutes_is_crash_looping() -> None:
    clock, events, server = Clock(), EventBus(), fault_server("crash_call")

    with events.subscribe() as told:
        async with upstreams(policy=policy(clock), events=events) as opened:
            for _ in range(5):
                await opened.list_tools(server)
                assert isinstance(await failure_of(opened, server), OutcomeUnknownError)
            await eventually(lambda: "status 7" in opened.states()[server.name].reason)
            condition = opened.states()[server.name]
            refused = await failure_of(opened, server)
        states = [e.state for e in heard(told) if isinstance(e, ServerStateChanged)]

    assert condition.state is ServerState.CRASH_LOOPING
    assert condition.next_try == 120.0
    assert condition.stats.stderr == "about to crash"
    assert (condition.stats.failures, condition.stats.restarts) == (5, 4)
    assert "next try in 120 s" in refused.message
    assert ServerState.CRASH_LOOPING in states


@pytest.mark.requirement("UPS-62")
async def test_somebody_who_insists_is_heard_once() -> None:
    server = fault_server("crash_start")

    async with upstreams(policy=policy(Clock())) as opened:
        for _ in range(3):
            await failure_of(opened, server)
        opened.reset_backoff(server.name)
        insisting = await failure_of(opened, server)
        again = await failure_of(opened, server)

    assert "next try" not in insisting.message
    assert "next try" in again.message


@pytest.mark.requirement("UPS-62")
async def test_a_server_that_is_reached_in_another_way_now_starts_anew() -> None:
    async with upstreams(policy=policy(Clock())) as opened:
        for _ in range(3):
            await failure_of(opened, fault_server("crash_start"))
        mended = await call(opened, fault_server("ok"), text="hi")

    assert mended == '{"text": "hi"}'


@pytest.mark.parametrize("mode", ["tool_error", "refuses_call"])
@pytest.mark.requirement("UPS-63")
async def test_a_tool_that_fails_is_never_held_against_its_server(mode: str) -> None:
    server = fault_server(mode)

    async with upstreams(policy=policy(Clock())) as opened:
        for _ in range(8):
            with suppress(UpstreamProtocolError):
                await opened.call(server, "echo", {})
        condition = opened.states()[server.name]

    assert (condition.state, condition.stats.failures) == (ServerState.READY, 0)


@pytest.mark.requirement("UPS-64")
async def test_only_one_caller_tries_a_server_that_failed_five_times() -> None:
    clock = Clock()
    outcomes: list[UpstreamError] = []

    with http_server("fail_call") as url:
        server = remote_server(url)

        async def ask(opened: Upstreams) -> None:
            outcomes.append(await failure_of(opened, server))

        async with upstreams(policy=policy(clock)) as opened:
            for _ in range(5):
                clock.now += 60
                await failure_of(opened, server)
            clock.now += 60
            failing = opened.states()[server.name].state
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(ask, opened)

    tried = [error for error in outcomes if isinstance(error, OutcomeUnknownError)]
    assert failing is ServerState.FAILING
    assert (len(tried), len(outcomes)) == (1, 5)
    assert all("just being tried" in e.message for e in outcomes if e not in tried)


@pytest.mark.requirement("UPS-65")
async def test_beyond_its_slots_and_its_queue_a_server_is_busy_and_its_neighbours_are_not() -> None:
    busy = fault_server("hang_call", name="busy", limits=Limits(calls=2, queue=3))
    neighbour = fault_server(name="neighbour")

    async with upstreams() as opened:
        async with anyio.create_task_group() as tasks:
            await opened.list_tools(busy)
            for _ in range(5):
                tasks.start_soon(opened.call, busy, "hang", {})
            await eventually(lambda: opened.sessions()[busy.name].users == 2)
            refused = await failure_of(opened, busy)
            answer = await call(opened, neighbour, text="hi")
            condition = opened.states()[busy.name]
            tasks.cancel_scope.cancel()
        freed = await call(opened, busy, "other")

    assert isinstance(refused, UnavailableError)
    assert (refused.kind, refused.retry_after) == (FailureKind.BUSY, 1.0)
    assert (condition.stats.users, condition.stats.queued, condition.stats.refused) == (2, 3, 1)
    assert (answer, freed) == ('{"text": "hi"}', "other")


@pytest.mark.requirement("UPS-65")
async def test_who_waits_for_a_server_takes_no_slot_from_the_others() -> None:
    limits = Limits(calls=2)
    starting = fault_server("hang_start", name="starting", limits=limits)
    neighbour = fault_server(limits=limits)

    async with upstreams(policy=Policy(everywhere=2)) as opened, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(opened.call, starting, "echo", {})
        await anyio.wait_all_tasks_blocked()
        answer = await call(opened, neighbour, text="hi")
        tasks.cancel_scope.cancel()

    assert answer == '{"text": "hi"}'


@pytest.mark.thorough
@pytest.mark.requirement("UPS-15")
async def test_a_call_that_tells_of_its_progress_gets_more_time(tmp_path: Path) -> None:
    silent = fault_server("hang_call", name="silent", timeouts=Timeouts(call=0.3))
    telling = fault_server("awaits_file", name="telling", timeouts=Timeouts(call=2))
    gate = anyio.Path(tmp_path / "gate")

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if progress == 50:  # the program has slept between them for longer than a call may take
            await gate.touch()

    async with upstreams() as opened:
        with pytest.raises(UpstreamTimeoutError):
            await call(opened, silent, "hang")
        result = await opened.call(telling, "echo", {"text": str(gate)}, on_progress=on_progress)
        conditions = opened.states()

    assert result.get("isError") is not True
    assert conditions[telling.name].state is ServerState.READY
    assert conditions[silent.name].state is ServerState.DEGRADED
    assert "within 0.3 s" in conditions[silent.name].reason


@pytest.mark.requirement("UPS-67")
async def test_each_server_has_limits_of_its_own_which_may_change_while_it_is_called() -> None:
    slow = fault_server("hang_call", limits=Limits(calls=1, queue=0))
    wider = replace(slow, limits=Limits(calls=2, queue=0))

    async with upstreams() as opened, anyio.create_task_group() as tasks:
        pid = await pid_of(opened, slow)
        tasks.start_soon(opened.call, slow, "hang", {})
        await eventually(lambda: opened.sessions()[slow.name].users == 1)
        refused = await failure_of(opened, slow)
        answer = await call(opened, wider, "other")
        same = await pid_of(opened, wider)
        tasks.cancel_scope.cancel()

    assert isinstance(refused, UnavailableError)
    assert "as many calls are under way as it takes (1)" in refused.message
    assert (answer, same) == ("other", pid)


@pytest.mark.requirement("UPS-67")
@pytest.mark.parametrize(("mebibytes", "fits"), [(8, False), (16, True)])
async def test_an_answer_is_as_long_as_its_server_may_be(mebibytes: int, fits: bool) -> None:
    huge = fault_server("huge", limits=Limits(answer_mib=mebibytes))

    async with upstreams() as opened:
        try:
            answer = await call(opened, huge, "huge")
        except UpstreamProtocolError as error:
            answer = error.message

    assert (len(answer) > 8 * 1024 * 1024) is fits
    assert fits or "longer than 8 MiB" in answer


@pytest.mark.requirement("UPS-67")
async def test_another_longest_answer_is_that_of_a_new_session() -> None:
    huge = fault_server("huge", limits=Limits(answer_mib=8))

    async with upstreams() as opened:
        pid = await pid_of(opened, huge)
        answer = await call(opened, replace(huge, limits=Limits(answer_mib=16)), "huge")

        assert len(answer) > 8 * 1024 * 1024
        assert opened.sessions()[huge.name].pid != pid
