"""Child processes: what they see of us, and how they end."""

from __future__ import annotations

import json
import os
import sys

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import (
    UnavailableError,
)
from tests.servers.programs import (
    call,
    descendants,
    eventually,
    fault_server,
    is_running,
    pid_of,
    program,
    upstreams,
)

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("UPS-20")
async def test_a_program_sees_none_of_our_environment_but_what_is_harmless_or_declared() -> None:
    canaries = {f"CANARY_{i}": "secret" for i in range(50)}
    ours = os.environ | canaries | {"LD_PRELOAD": "", "PYTHONPATH": "/x", "USER": "() { :; }"}
    server = fault_server(env={"DECLARED": "yes"})

    async with upstreams(environ=ours) as opened:
        environment = json.loads(await call(opened, server, "environment"))

    assert environment.pop("DECLARED") == "yes"
    assert "PATH" in environment
    assert {"USER", "LD_PRELOAD", "PYTHONPATH"}.isdisjoint(environment)
    assert canaries.keys().isdisjoint(environment)


@pytest.mark.parametrize(
    "command", ["x; touch M", "$(touch M)", "`touch M`", "true && touch M", "true\ntouch M"]
)
@pytest.mark.requirement("UPS-21")
async def test_no_shell_reads_a_command(command: str, tmp_path) -> None:
    server = program(command, cwd=str(tmp_path))

    async with upstreams() as opened:
        with pytest.raises(UnavailableError):
            await opened.list_tools(server)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("UPS-21")
async def test_arguments_and_the_working_directory_arrive_as_they_are(tmp_path) -> None:
    server = fault_server()
    assert isinstance(server.transport, StdioTransport)
    server = replace(server, transport=replace(server.transport, cwd=str(tmp_path)))

    async with upstreams() as opened:
        where = await call(opened, server, "cwd")

    assert where == str(tmp_path)


@pytest.mark.thorough
@pytest.mark.requirement("UPS-22")
async def test_stubborn_programs_are_ended_together() -> None:
    servers = [fault_server("stubborn", name=f"stubborn{i}") for i in range(10)]

    with anyio.fail_after(60) as limit:
        async with upstreams() as opened:
            pids = [await pid_of(opened, server) for server in servers]
            limit.deadline = anyio.current_time() + 27  # one after the other they would take 30 s

    assert not any(is_running(pid) for pid in pids)


@pytest.mark.thorough
@pytest.mark.requirement("UPS-22")
async def test_what_a_program_started_is_ended_with_it() -> None:
    starts_a_child = "import subprocess, sys; subprocess.call([sys.executable, *sys.argv[1:]])"
    inner = fault_server("stubborn").transport
    server = program(sys.executable, "-I", "-c", starts_a_child, *inner.args)

    async with upstreams() as opened:
        await opened.list_tools(fault_server())  # the reaper comes with the first program
        before = descendants()
        await opened.list_tools(server)
        started = descendants() - before

    assert len(started) == 2
    await eventually(lambda: not any(is_running(pid) for pid in started))


@pytest.mark.requirement("UPS-23")
async def test_a_program_may_write_as_many_complaints_as_it_likes() -> None:
    server = fault_server("stderr_flood")

    async with upstreams() as opened:
        await opened.list_tools(server)
        answer = await call(opened, server, text="hi")
        stderr = opened.sessions()[server.name].stderr

    assert json.loads(answer) == {"text": "hi"}
    assert len(stderr.splitlines()) == 20
