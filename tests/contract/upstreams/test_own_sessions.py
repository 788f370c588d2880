"""Servers with `session: per_client`: a program for each client, and never too many."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from discovery_engine.config.settings import Limits
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.upstream.history import Policy
from discovery_engine.upstream.upstreams import Upstreams
from tests.servers.programs import fault_server, is_running, text_of, upstreams

ALICE = CallbackClient(id="alice")

pytestmark = pytest.mark.anyio

FEW = fault_server(session="per_client", limits=Limits(sessions=3))


async def pid_for(opened: Upstreams, client: str, server=FEW) -> int:
    with anyio.fail_after(60):
        return int(text_of(await opened.call(server, "pid", {}, caller=CallbackClient(id=client))))


async def until_gone(pid: int) -> None:
    with anyio.fail_after(60):
        while is_running(pid):  # noqa: ASYNC110 - the system has no event for a foreign process
            await anyio.sleep(0.01)


@pytest.mark.requirement("UPS-68")
async def test_the_client_for_whom_there_is_no_room_is_refused_and_nobody_else() -> None:
    async with upstreams() as opened:
        pids = {await pid_for(opened, f"client {number}") for number in range(3)}
        for number in range(3, 40):
            with pytest.raises(UnavailableError) as refused:
                await pid_for(opened, f"client {number}")
        again = {await pid_for(opened, f"client {number}") for number in range(3)}
        condition = opened.states()[FEW.name]

    assert len(pids) == 3
    assert again == pids
    assert refused.value.kind is FailureKind.BUSY
    assert "3 clients have a session of their own with it" in refused.value.message
    assert "limits.sessions" in refused.value.hint
    assert 200 < (refused.value.retry_after or 0) <= 300
    assert (condition.state, condition.stats.failures) == ("ready", 0)


@pytest.mark.requirement("UPS-68")
async def test_all_servers_together_have_so_many_and_no_more() -> None:
    servers = [fault_server(name=f"s{number}", session="per_client") for number in range(5)]
    shared = fault_server(name="shared")

    async with upstreams(policy=Policy(own_sessions=3)) as opened:
        for server in servers[:3]:
            await pid_for(opened, "alice", server)
        with pytest.raises(UnavailableError, match="3 sessions of their own with all") as refused:
            await pid_for(opened, "alice", servers[3])
        await pid_for(opened, "alice", shared)

    assert "server.maxOwnSessions" in refused.value.hint


@pytest.mark.thorough
@pytest.mark.requirement("UPS-68")
async def test_clients_that_come_and_go_never_have_more_programs_than_places() -> None:
    stubborn = fault_server("stubborn", session="per_client", limits=Limits(sessions=2))
    pids: set[int] = set()
    most = 0

    async with upstreams() as opened:
        for number in range(6):
            pids.add(await pid_for(opened, f"client {number}", stubborn))
            most = max(most, sum(map(is_running, pids)))
            opened.close_client(f"client {number}")

    assert len(pids) == 6
    assert most <= 2


@pytest.mark.requirement("UPS-69")
async def test_a_client_that_goes_takes_its_own_program_along_and_no_other() -> None:
    async with upstreams() as opened:
        alice, bob = await pid_for(opened, "alice"), await pid_for(opened, "bob")
        opened.close_client("alice")
        opened.close_client("nobody")
        await until_gone(alice)
        same = await pid_for(opened, "bob")

    assert same == bob


@pytest.mark.requirement("UPS-69")
async def test_a_call_that_is_under_way_is_finished_first(tmp_path: Path) -> None:
    server = fault_server("awaits_file", session="per_client")
    file, begun, answers = tmp_path / "go on", anyio.Event(), []

    async def on_progress(*_: object) -> None:
        begun.set()

    async def ask(opened: Upstreams) -> None:
        answer = await opened.call(
            server,
            "echo",
            {"text": str(file)},
            caller=ALICE,
            on_progress=on_progress,
        )
        answers.append(text_of(answer))

    async with upstreams() as opened, anyio.create_task_group() as tasks:
        with anyio.fail_after(60):
            tasks.start_soon(ask, opened)
            await begun.wait()
            opened.close_client("alice")
            file.touch()

    assert answers == ["done"]
