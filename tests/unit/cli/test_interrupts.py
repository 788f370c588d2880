from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are a matter of POSIX")

BEGINNING = """
import os, signal, sys, threading
import anyio
from discovery_cli.interrupts import Interrupts

def press():
    os.kill(os.getpid(), signal.SIGINT)

def press_behind():
    '''Once the loop sleeps, and without a word to its system call.'''
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    main = threading.main_thread().ident
    def behind():
        while sys._current_frames()[main].f_code.co_name != "select":
            pass
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        press()
    threading.Thread(target=behind).start()

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup
interrupts = Interrupts()
"""
END = """
except KeyboardInterrupt:
    interrupts.leave(130)
interrupts.leave(0)
"""


def ended(body: str, *, before: str = "interrupts.heed()") -> subprocess.CompletedProcess[str]:
    """A process that does `before`, and then `body` in a block that a press ends."""
    lines = ["try:", "    with interrupts.raised():", *(f"        {x}" for x in body.splitlines())]
    script = "\n".join([BEGINNING, before, *lines]) + END
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


IN_A_DESTRUCTOR = """
class Going:
    def __del__(self): press()
Going()
"""
WRAPPED = """
class Named:
    def __set_name__(self, *_): press()
class Owner:
    named = Named()
"""
IN_A_LOOP = """
async def main():
    {}
    await anyio.sleep_forever()
interrupts.run(main)
"""
AT_THE_END_OF_A_LOOP = """
async def main():
    with anyio.CancelScope() as scope:
        scope.cancel()
        press()
        await anyio.sleep_forever()
interrupts.run(main)
"""


@pytest.mark.requirement("CLI-28")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param("press(); signal.pause()", id="while it waits"),
        pytest.param("eval('press()'); signal.pause()", id="where Python keeps it in mind"),
        pytest.param(IN_A_DESTRUCTOR, id="where Python reports and forgets it"),
        pytest.param(WRAPPED, id="where it becomes another error"),
        pytest.param("try: press()\nexcept BaseException: pass", id="where it is caught"),
        pytest.param(IN_A_LOOP.format("press()"), id="while a loop works"),
        pytest.param(IN_A_LOOP.format("press_behind()"), id="while a loop sleeps"),
        pytest.param(AT_THE_END_OF_A_LOOP, id="where a loop is cancelled anyway"),
    ],
)
def test_a_press_is_never_lost(body: str) -> None:
    done = ended(body)

    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.requirement("CLI-28")
def test_all_is_closed_before_a_loop_ends() -> None:
    work = """
async def main():
    try:
        press()
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0)
            print("closed")
interrupts.run(main)
"""

    done = ended(work)

    assert (done.returncode, done.stdout) == (130, "closed\n")


@pytest.mark.requirement("CLI-28")
@pytest.mark.parametrize("rest", ["", "interrupts.run(main)"], ids=["block", "loop"])
def test_a_second_press_ends_it_on_the_spot(rest: str) -> None:
    work = f"""
async def main():
    with anyio.CancelScope(shield=True):
        press()
        press()
        await anyio.sleep_forever()
{rest or "try: press()"}
{"" if rest else "except KeyboardInterrupt: press()"}
"""

    assert ended(work).returncode == -signal.SIGINT


CUT_SHORT = """
async def main():
    with anyio.CancelScope() as wait, interrupts.cutting_short(wait.cancel):
        press()
        await anyio.sleep_forever()
    print("answered")
interrupts.run(main)
print("told")
"""


@pytest.mark.requirement("CLI-28")
def test_a_press_that_cuts_a_wait_short_lets_the_command_answer() -> None:
    done = ended(CUT_SHORT)

    assert (done.returncode, done.stdout, done.stderr) == (130, "answered\ntold\n", "")


HUNG_UP = """
async def main():
    with anyio.CancelScope() as wait, interrupts.cutting_short(wait.cancel, hangs_up=True):
        os.kill(os.getpid(), signal.{})
        await anyio.sleep_forever()
    os.kill(os.getpid(), signal.SIGHUP)
    print("answered")
interrupts.run(main)
"""


@pytest.mark.requirement("QST-50")
def test_a_terminal_that_is_gone_ends_a_question_and_not_the_command() -> None:
    done = ended(HUNG_UP.format("SIGHUP"))

    assert (done.returncode, done.stdout, done.stderr) == (130, "answered\n", "")


@pytest.mark.requirement("QST-50")
def test_a_hang_up_after_a_cancelled_question_ends_the_command() -> None:
    assert ended(HUNG_UP.format("SIGINT")).returncode == -signal.SIGHUP
