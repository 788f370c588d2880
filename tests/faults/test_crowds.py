"""Many callers at once, callers who go away, and servers that die again and again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import Limits, ServerSettings
from discovery_engine.errors import FailureKind, OutcomeUnknownError, UnavailableError
from discovery_engine.upstream.history import Policy
from discovery_engine.upstream.state import ServerState
from discovery_engine.upstream.upstreams import Upstreams
from tests.servers.programs import (
    call,
    eventually,
    fault_server,
    http_server,
    remote_server,
    text_of,
    upstreams,
)

pytestmark = pytest.mark.anyio

FEW = Limits(calls=2, queue=3)


@pytest.mark.requirement("UPS-65")
async def test_of_a_thousand_callers_each_has_the_right_answer_or_is_refused_at_once() -> None:
    servers = [
        fault_server(name=f"server{number}", limits=Limits(calls=16, queue=64))
        for number in range(10)
    ]
    told: Counter[str] = Counter()

    async def ask(server: ServerSettings, nonce: int) -> None:
        try:
            answer = await opened.call(server, "echo", {"nonce": nonce})
            is_right = json.loads(text_of(answer)) == {"nonce": nonce}
            told["right" if is_right else "wrong"] += 1
        except UnavailableError as error:
            is_busy = (error.kind, error.retry_after) == (FailureKind.BUSY, 1.0)
            told["refused" if is_busy else "failed"] += 1

    with anyio.fail_after(60):
        async with upstreams() as opened:
            async with anyio.create_task_group() as tasks:
                for nonce in range(1000):
                    tasks.start_soon(ask, servers[nonce % 10], nonce)
            conditions = opened.states()

    assert told == {"right": 800, "refused": 200}
    assert {(c.state, c.stats.users, c.stats.queued) for c in conditions.values()} == {
        (ServerState.READY, 0, 0)
    }
    assert sum(c.stats.refused for c in conditions.values()) == 200


async def crowd(
    opened: Upstreams, server: ServerSettings, until: Callable[[], bool], *, tool: str
) -> None:
    """Callers in every slot and every place to wait, who all go away."""
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(opened.call, server, tool, {})
        await eventually(until)
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("UPS-16")
@pytest.mark.parametrize("mode", ["hang_call", "late"])
async def test_callers_who_go_away_leave_their_places_to_others(mode: str) -> None:
    kind = {"late": "wire_server.py"}.get(mode, "fault_server.py")
    server = fault_server(mode, program=kind, limits=FEW)

    async with upstreams() as opened:
        await opened.list_tools(server)
        seen = lambda: opened.states()[server.name]  # noqa: E731
        await crowd(
            opened, server, lambda: (seen().stats.users, seen().stats.queued) == (2, 3), tool="hang"
        )
        answers = [await call(opened, server, "other") for _ in range(5)]
        after = seen()

    assert len(set(answers)) == 1
    assert (after.stats.users, after.stats.queued, after.state) == (0, 0, ServerState.READY)
    assert (after.stats.strays, after.stats.refused) == (0, 0)


@pytest.mark.requirement("UPS-16")
async def test_callers_of_an_address_who_go_away_leave_their_places_to_others() -> None:
    with http_server("hang_call") as url:
        server = remote_server(url, limits=FEW)
        async with upstreams() as opened:
            await opened.list_tools(server)
            seen = lambda: opened.states()[server.name]  # noqa: E731
            await crowd(opened, server, lambda: seen().stats.queued == 3, tool="echo")
            listing = await opened.list_tools(server)
            after = seen()

    assert len(listing.tools) == 1
    assert (after.stats.users, after.stats.queued, after.state) == (0, 0, ServerState.READY)


@pytest.mark.thorough
@pytest.mark.requirement("UPS-22")
async def test_a_server_that_dies_again_and_again_leaves_nothing_behind() -> None:
    now = 0.0

    def later() -> float:
        nonlocal now
        now += 1000.0
        return now

    server = replace(fault_server("crash_call"), name="dying")
    async with upstreams(policy=Policy(clock=later)) as opened:
        for _ in range(30):
            with pytest.raises(OutcomeUnknownError):
                await call(opened, server)
        restarts = opened.states()[server.name].stats.restarts

    assert restarts == 29
