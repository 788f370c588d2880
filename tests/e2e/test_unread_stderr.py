"""`discovery serve` for a client that never reads its stderr, or reads it late."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.e2e.serving import Home, fault_entry
from tests.kinds import thinned
from tests.unit.server.wire import INITIALIZE, INITIALIZED, call

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

CALLS = 2_000
AT_ONCE = 50  # messages, which are less than a pipe holds
UNKNOWN = "x" * 200
"""A tool that there is not; its name makes lines of some 300 characters."""


def cramp(process: subprocess.Popen[bytes]) -> None:
    """Make the pipe of its stderr as small as pipes are."""
    assert process.stderr is not None
    fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)


def call_many(process: subprocess.Popen[bytes], tool: str, times: int = CALLS) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    for first in range(100, 100 + times, AT_ONCE):
        calls = [call(first + n, "execute_tool", tool=tool) for n in range(AT_ONCE)]
        process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in calls))
        process.stdin.flush()
        answered = {json.loads(process.stdout.readline())["id"] for _ in range(AT_ONCE)}
        assert answered == set(range(first, first + AT_ONCE))


def shake_hands(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    messages = (INITIALIZE, INITIALIZED)
    process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in messages))
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == INITIALIZE["id"]


@asynccontextmanager
async def gateway(home: Home, *options: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Killed when a test takes too long, which frees the threads that wait for its answers."""
    home.write({"good": fault_entry()})
    with home.process(*options) as process, anyio.fail_after(120):
        cramp(process)
        try:
            yield process
        finally:
            process.kill()


async def within(seconds: float, work: Callable[[], Any]) -> Any:
    with anyio.fail_after(seconds):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.requirement("SRV-5")
@pytest.mark.parametrize(
    ("tool", "end"),
    thinned(
        [
            pytest.param("good:echo", close_stdin, id="EOF"),
            pytest.param(
                UNKNOWN, lambda process: process.send_signal(signal.SIGTERM), id="SIGTERM"
            ),
        ]
    ),
)
async def test_a_client_on_stdio_that_reads_no_stderr_is_answered_and_can_end_it(
    home: Home, tool: str, end: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    async with gateway(home) as process:
        await within(60, partial(shake_hands, process))
        await within(100, partial(call_many, process, tool))

        end(process)

        assert await within(60, process.wait) == 0
