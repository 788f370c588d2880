"""The process that starts all programs, and ends them with us."""

from __future__ import annotations

import os
import signal
import sys

import anyio
import anyio.from_thread
import pytest
from anyio.abc import Process

from discovery_engine.upstream.stdio.process import supervise
from discovery_engine.upstream.stdio.reaper import Reaper, open_reaper

pytestmark = pytest.mark.anyio

SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


async def started(reaper: Reaper, *command: str) -> Process:
    return await reaper.start_program(command, env=dict(os.environ), cwd=None)


@pytest.mark.requirement("UPS-24")
async def test_large_requests_at_the_same_time_keep_their_pipes_apart() -> None:
    """The system passes on the end of one request together with the beginning of the next."""
    env = dict(os.environ) | {"LARGE": "x" * 70_000}
    said: dict[int, bytes] = {}

    async def ask(number: int) -> None:
        program = await reaper.start_program(["/bin/echo", str(number)], env=env, cwd=None)
        async with supervise(program) as child:
            said[number] = await child.stdout.receive()

    async with open_reaper() as reaper:
        await started(reaper, *SLEEPER)
        assert reaper.pid is not None
        os.kill(reaper.pid, signal.SIGSTOP)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(ask, number)
                await anyio.wait_all_tasks_blocked()
                os.kill(reaper.pid, signal.SIGCONT)

    assert said == {number: b"%d\n" % number for number in range(4)}
