"""No program outlives us, however we die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from discovery_engine.config.settings import StdioTransport
from discovery_engine.upstream.stdio import reaper_program
from discovery_engine.upstream.stdio.reaper import Reaper, open_reaper
from tests.servers.programs import (
    HERE,
    descendants,
    eventually,
    fault_server,
    is_running,
    upstreams,
)

pytestmark = pytest.mark.anyio

SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
ROOT = HERE.parent.parent


def command_of(mode: str) -> list[str]:
    transport = fault_server(mode).transport
    assert isinstance(transport, StdioTransport)
    return [transport.command, *transport.args]


@contextmanager
def gateway(*commands: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds a session with each of these programs."""
    arguments = [json.dumps(command) for command in commands]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.gateway", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@contextmanager
def leader() -> Iterator[int]:
    """A process at the head of a group of its own."""
    with subprocess.Popen(SLEEPER, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def is_asleep(pid: int | None) -> bool:
    return "State:\tS" in Path(f"/proc/{pid}/status").read_text("ascii")


def resident(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return int(next(line for line in lines if "VmRSS" in line).split()[1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=["kill", "segv"])
@pytest.mark.requirement("UPS-24")
async def test_nothing_is_left_of_a_gateway_that_is_killed(number: int) -> None:
    below_a_shell = ["sh", "-c", '"$@"; true', "sh", *command_of("stubborn")]

    with gateway(command_of("ok"), command_of("stubborn"), below_a_shell) as process:
        started = descendants(process.pid)
        process.send_signal(number)
        process.wait()
        await eventually(lambda: not any(map(is_running, started)))

    assert len(started) >= 5  # three servers, a shell, the reaper


@pytest.mark.requirement("UPS-24")
async def test_there_is_one_reaper_for_all_and_none_before_the_first_program() -> None:
    before = descendants()

    async with upstreams() as opened:
        assert descendants() == before
        for number in range(3):
            await opened.list_tools(fault_server(name=f"server{number}"))
        started = descendants() - before

    assert len(started) == 4
    assert not any(map(is_running, started))


@pytest.mark.requirement("UPS-24")
async def test_a_reaper_that_is_killed_is_replaced_by_one_that_knows_all_groups() -> None:
    with leader() as first, leader() as second:
        async with open_reaper() as reaper:
            await reaper.ready()
            async with reaper.watching(first):
                killed = reaper.pid
                assert killed is not None
                os.kill(killed, signal.SIGKILL)
                await eventually(lambda: not is_running(killed))
                async with reaper.watching(second):
                    await reaper.close()  # as it would be if we were killed now
                    await eventually(lambda: not is_running(first) and not is_running(second))

    assert reaper.pid != killed


@pytest.mark.requirement("UPS-24")
async def test_a_reaper_that_could_not_be_replaced_at_once_knows_all_groups_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with leader() as group:
        async with open_reaper() as reaper:
            await reaper.ready()
            killed = reaper.pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            await eventually(lambda: not is_running(killed))
            with monkeypatch.context() as patch:
                patch.setattr(sys, "executable", "/no/such/python")
                watching = reaper.watching(group)
                await watching.__aenter__()

            await reaper.ready()
            await reaper.close()  # as it would be if we were killed now
            await eventually(lambda: not is_running(group))
            await watching.__aexit__(None, None, None)


@pytest.mark.requirement("UPS-24")
async def test_what_has_ended_before_us_is_not_touched() -> None:
    with leader() as alive:
        async with open_reaper() as reaper:
            await reaper.ready()
            async with reaper.watching(alive):
                pass

        assert is_running(alive)


@pytest.mark.requirement("UPS-24")
async def test_another_process_that_was_given_the_number_is_not_touched() -> None:
    with leader() as reused:
        await anyio.to_thread.run_sync(reaper_program.end, {reused: "another time"})

        assert is_running(reused)


@pytest.mark.requirement("UPS-24")
async def test_without_a_process_to_be_told_nothing_fails() -> None:
    async with Reaper().watching(1):
        pass


@pytest.mark.requirement("UPS-24")
async def test_the_reaper_takes_less_than_ten_megabytes() -> None:
    async with open_reaper() as reaper:
        await reaper.ready()
        with leader() as group:
            async with reaper.watching(group):
                await eventually(lambda: is_asleep(reaper.pid))
                kilobytes = resident(reaper.pid)

    assert kilobytes < 10 * 1024
