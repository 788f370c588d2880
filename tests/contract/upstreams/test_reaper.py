"""No program outlives us, however we die."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import anyio.from_thread
import pytest
from anyio.abc import Process

from discovery_engine.config.settings import StdioTransport
from discovery_engine.upstream.stdio import reaper_program
from discovery_engine.upstream.stdio.process import supervise
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


def is_asleep(pid: int | None) -> bool:
    return "State:\tS" in Path(f"/proc/{pid}/status").read_text("ascii")


def resident(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return int(next(line for line in lines if "VmRSS" in line).split()[1])


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="kill", marks=pytest.mark.landing),
        pytest.param(signal.SIGSEGV, id="segv"),
    ],
)
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


async def started(reaper: Reaper, *command: str) -> Process:
    return await reaper.start_program(command, env=dict(os.environ), cwd=None)


@pytest.mark.requirement("UPS-27")
async def test_programs_end_with_a_reaper_that_is_killed_and_the_next_start_has_another() -> None:
    async with open_reaper() as reaper:
        first = await started(reaper, *SLEEPER)
        killed = reaper.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        with anyio.fail_after(60):
            assert await first.wait() == -signal.SIGKILL
        await eventually(lambda: not is_running(first.pid))
        second = await started(reaper, *SLEEPER)
        assert is_running(second.pid)

    assert reaper.pid != killed
    await eventually(lambda: not is_running(second.pid))


@pytest.mark.requirement("UPS-27")
async def test_a_reaper_that_was_killed_unnoticed_is_replaced_by_the_start_that_needs_it() -> None:
    async with open_reaper() as reaper:
        first = await started(reaper, *SLEEPER)
        assert reaper.pid is not None
        os.kill(reaper.pid, signal.SIGKILL)
        while is_running(reaper.pid):  # the loop, which would notice, has no turn meanwhile
            pass
        second = await started(reaper, *SLEEPER)

        assert is_running(second.pid)
        await eventually(lambda: not is_running(first.pid))


@pytest.mark.requirement("UPS-27")
async def test_a_reaper_that_is_stopped_holds_up_nobody_and_starts_nothing_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = {f"V{number}": "x" * 100_000 for number in range(10)}  # more than a socket buffers
    async with open_reaper() as reaper:
        first = await started(reaper, *SLEEPER)
        stopped = reaper.pid
        assert stopped is not None
        before = descendants()
        os.kill(stopped, signal.SIGSTOP)
        monkeypatch.setattr("discovery_engine.upstream.stdio.reaper._ANSWER_WITHIN", 0.2)
        with pytest.raises(OSError, match="stopped"):
            await started(reaper, *SLEEPER)
        with anyio.move_on_after(0.1) as scope:
            await started(reaper, *SLEEPER)
        assert scope.cancelled_caught
        assert first.returncode is None

        os.kill(stopped, signal.SIGCONT)
        monkeypatch.setattr("discovery_engine.upstream.stdio.reaper._ANSWER_WITHIN", 20.0)
        later = await started(reaper, *SLEEPER)
        await eventually(lambda: descendants() - before == {later.pid})

        os.kill(stopped, signal.SIGSTOP)
        monkeypatch.setattr("discovery_engine.upstream.stdio.reaper._ANSWER_WITHIN", 0.2)
        with pytest.raises(OSError, match="stopped"):
            await reaper.start_program(SLEEPER, env=large, cwd=None)

    await eventually(lambda: not is_running(later.pid))
    assert not is_running(stopped)


@pytest.mark.requirement("UPS-28")
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


@pytest.mark.requirement("UPS-28")
async def test_a_variable_without_a_name_fails_one_start_and_nothing_else() -> None:
    async with open_reaper() as reaper:
        first = await started(reaper, *SLEEPER)
        with pytest.raises(ValueError, match="variable name"):
            await reaper.start_program(SLEEPER, env={"": "x"}, cwd=None)
        with pytest.raises(FileNotFoundError):
            await reaper.start_program(["/bin/there is none"], env={}, cwd=None)
        with pytest.raises(OSError) as caught:  # noqa: PT011 - judged by its number
            await reaper.start_program(SLEEPER, env={"LARGE": "x" * 4_000_000}, cwd=None)
        assert caught.value.errno == errno.E2BIG

        await started(reaper, *SLEEPER)
        assert first.returncode is None


UNREADABLE = """
import ctypes, os, sys
for capability in (1, 2):  # to override the permissions of files, if we are root
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.chdir(sys.argv[1])
os.execv(sys.executable, [sys.executable, "-c", sys.argv[2]])
"""
START_TWICE = """
import anyio, os
from discovery_engine.upstream.stdio.reaper import open_reaper
async def main():
    async with open_reaper() as reaper:
        for folder in (None, "/usr", None):
            program = await reaper.start_program(["/bin/pwd"], env={}, cwd=folder)
            print((await program.stdout.receive()).decode(), end="")
anyio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the capabilities of Linux")
@pytest.mark.requirement("UPS-28")
def test_programs_start_from_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "unreadable"
    folder.mkdir()
    folder.chmod(0o311)

    command = [sys.executable, "-c", UNREADABLE, str(folder), START_TWICE]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)

    assert done.stdout.decode().split() == [str(folder), "/usr", "/"]


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


@pytest.mark.parametrize("how", LEAVE)
@pytest.mark.requirement("UPS-26")
async def test_what_left_the_group_of_its_program_is_ended_with_us(
    how: str, tmp_path: Path
) -> None:
    async with open_reaper() as reaper:
        program = await started(reaper, *leaving(how, tmp_path / "left"))
        await eventually(lambda: bool(noted(tmp_path / "left")))
        [left] = noted(tmp_path / "left")
        await reaper.close()  # as it would be if we were killed now
        await eventually(lambda: not is_running(left) and not is_running(program.pid))
        await eventually(lambda: left not in descendants())


@pytest.mark.requirement("UPS-26")
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


@pytest.mark.requirement("UPS-26")
async def test_what_a_program_leaves_behind_is_no_zombie_once_it_ends(tmp_path: Path) -> None:
    double = "import os; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True)"
    async with open_reaper() as reaper:
        program = await started(reaper, sys.executable, "-I", "-S", "-c", double)
        assert program.stdout is not None
        left = int(await program.stdout.receive())
        with anyio.fail_after(60):
            await program.wait()

        await eventually(lambda: not Path(f"/proc/{left}").exists())


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1])
@pytest.mark.requirement("UPS-24")
def test_a_reaper_that_comes_up_after_our_death_starts_nothing_and_goes(seconds: float) -> None:
    """The request is there, and whoever made it has been dead for so long when it is read."""
    script = f"""
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
words = [b"0", b"", b"2", b"/bin/sleep", b"sleep", b"600", b"MARK={os.getpid()}-{seconds}"]
body = b"".join(word + b"\\0" for word in words)
null = os.open(os.devnull, os.O_RDWR)
socket.send_fds(ours, [b"%010d" % len(body) + body], [null, null, null])
reaper = subprocess.Popen(
    [{sys.executable!r}, "-I", "-S", {reaper_program.__file__!r}, str(os.getpid())],
    stdin=theirs, start_new_session=True)
print(reaper.pid, flush=True)
import time; time.sleep({seconds})
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False)
    mark = f"MARK={os.getpid()}-{seconds}\0".encode()

    reaper = int(done.stdout)
    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(eventually, lambda: not is_running(reaper))
    assert not with_environment(mark)


def with_environment(variable: bytes) -> list[Path]:
    """The processes that were started with it."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += [file] if variable in file.read_bytes() else []
    return found


@pytest.mark.parametrize("programs", range(4))
@pytest.mark.requirement("UPS-24")
async def test_a_gateway_that_is_killed_as_it_starts_its_servers_leaves_none(
    programs: int, tmp_path: Path
) -> None:
    """It is killed as soon as so many programs are there; others are just being started."""
    file = tmp_path / "started"
    script = f"echo $$ >> {file}; trap '' TERM HUP INT PIPE; sleep 600; sleep 600"
    with starting(*[["/bin/sh", "-c", script]] * 4) as process:
        if programs:
            await eventually(lambda: len(noted(file)) >= programs)
        else:
            await eventually(lambda: bool(descendants(process.pid)))
        process.kill()
    await eventually(lambda: not any(map(is_running, noted(file))))


@contextmanager
def starting(*commands: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that starts these programs."""
    arguments = [json.dumps(command) for command in commands]
    command = [sys.executable, "-m", "tests.servers.gateway", *arguments]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.requirement("UPS-24")
async def test_the_reaper_takes_less_than_twelve_megabytes() -> None:
    async with open_reaper() as reaper:
        await started(reaper, *SLEEPER)
        await eventually(lambda: is_asleep(reaper.pid))
        kilobytes = resident(reaper.pid)

    assert kilobytes < 12 * 1024
