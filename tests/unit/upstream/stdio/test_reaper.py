"""The process that starts all programs, and ends them with us."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import anyio.from_thread
import pytest
from anyio.abc import Process

from discovery_engine.upstream.stdio.process import supervise
from discovery_engine.upstream.stdio.reaper import Reaper, open_reaper
from tests.servers.programs import (
    eventually,
    is_running,
)

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


LEAVE = {
    "session": "os.setsid()",
    "group": "os.setpgid(0, 0)",
    "twice": "os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)",
    "bare": "os.setsid(); os.environ.clear(); os.execve('/bin/sleep', ['sleep', '600'], {})",
}


def leaving(how: str, file: Path) -> list[str]:
    """A program whose child leaves its group, ignores all that can be ignored, and is noted."""
    child = f"{LEAVE[how]}; note(); time.sleep(600)" if how != "bare" else f"note(); {LEAVE[how]}"
    script = f"""
import os, signal, time
def note():
    with open({str(file)!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    {child}
    os._exit(0)
time.sleep(600)
"""
    return [sys.executable, "-I", "-S", "-c", script]


def noted(file: Path) -> list[int]:
    return [int(line) for line in file.read_text("ascii").split()] if file.exists() else []


@pytest.mark.requirement("UPS-24")
async def test_what_a_program_left_behind_does_not_end_with_another_program(
    tmp_path: Path,
) -> None:
    async with open_reaper() as reaper:
        await started(reaper, *leaving("twice", tmp_path / "left"))
        await eventually(lambda: bool(noted(tmp_path / "left")))
        [left] = noted(tmp_path / "left")
        async with supervise(await started(reaper, "/bin/cat")) as other:
            pass
        assert not is_running(other.pid)

        assert is_running(left)
    assert not is_running(left)
