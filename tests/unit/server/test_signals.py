from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX")

BEGINNING = """
import os, signal
import anyio
from discovery_server.signals import handled

def send(number):
    os.kill(os.getpid(), number)
"""


def ended(*lines: str) -> subprocess.CompletedProcess[str]:
    """A process whose main task is `lines`."""
    script = "\n".join([BEGINNING, "async def main():", *(f"    {line}" for line in lines)])
    command = [sys.executable, "-c", f"{script}\nanyio.run(main)"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.requirement("SRV-3")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_block_and_all_is_closed(number: int) -> None:
    done = ended(
        "async with handled():",
        "    try:",
        f"        send({number})",
        "        await anyio.sleep_forever()",
        "    finally:",
        "        print('closed')",
        "print('after')",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "closed\nafter\n", "")


@pytest.mark.requirement("SRV-3")
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process(first: int, second: int) -> None:
    done = ended(
        "async with handled() as signals:",
        f"    signals.stop = lambda: send({second})",
        f"    send({first})",
        "    await anyio.sleep_forever()",
    )

    assert done.returncode == -second


@pytest.mark.requirement("SRV-4")
def test_a_hangup_does_nothing_before_there_is_something_to_reload() -> None:
    done = ended(
        "async with handled() as signals:",
        "    send(signal.SIGHUP)",
        "    for _ in range(10): await anyio.lowlevel.checkpoint()",
        "    reloaded = anyio.Event()",
        "    async def reload(): reloaded.set()",
        "    signals.reload = reload",
        "    send(signal.SIGHUP)",
        "    await reloaded.wait()",
        "print('reloaded')",
    )

    assert (done.returncode, done.stdout) == (0, "reloaded\n")


def test_ctrl_c_is_what_it_was_before() -> None:
    done = ended(
        "before = signal.getsignal(signal.SIGINT)",
        "async with handled(): pass",
        "print(signal.getsignal(signal.SIGINT) is before)",
    )

    assert done.stdout == "True\n"


def test_an_error_comes_as_itself() -> None:
    done = ended(
        "try:",
        "    async with handled(): raise ValueError('wires crossed')",
        "except ValueError as error: print(error)",
    )

    assert done.stdout == "wires crossed\n"
