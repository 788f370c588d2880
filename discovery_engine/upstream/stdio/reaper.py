"""The programs that we start do not outlive us, not even if we are killed.

A small process of its own starts them for us, so that they, and whatever they leave behind, are
below it and not below us; when we are gone it ends all that is left. There is one for all, and
none before the first program.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from discovery_engine._util.tasks import Promise
from discovery_engine.upstream.stdio.pipes import PipeReader, PipeWriter
from discovery_engine.upstream.stdio.process import require_thread, start_program

_PROGRAM = Path(__file__).with_name("reaper_program.py")
_ENVIRONMENT = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH")  # what a Python may need to start
_ANSWERS_WITHIN = 10.0  # seconds; it takes milliseconds, unless somebody has stopped it
_GOODBYE = 2.0  # seconds
_GONE = (BrokenPipeError, ConnectionResetError, anyio.ClosedResourceError)


class Program(Process):
    """A process that the reaper started, as anyio has those that it starts itself."""

    stdin: PipeWriter | None = None
    stdout: PipeReader | None = None
    stderr: PipeReader | None = None

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._returncode: int | None = None
        self._ended = anyio.Event()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def returncode(self) -> int | None:
        return self._returncode

    async def open(self, descriptors: Sequence[int]) -> None:
        """Take over our ends of its three pipes."""
        stdin, stdout, stderr = descriptors
        self.stdin = await PipeWriter.from_descriptor(stdin)
        self.stdout = await PipeReader.from_descriptor(stdout)
        self.stderr = await PipeReader.from_descriptor(stderr)

    def set_exit(self, returncode: int) -> None:
        self._returncode = returncode
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        if self._returncode is None:
            raise AssertionError("it has ended")
        return self._returncode

    def send_signal(self, signal: int) -> None:
        if self._returncode is None:
            os.kill(self._pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def aclose(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                await stream.aclose()
        try:
            await self.wait()
        except BaseException:
            self.kill()
            raise


class Reaper:
    """Made by `open_reaper`, which ends it."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._socket: socket.socket | None = None
        self._received = b""
        self._turn = anyio.Lock()
        self._numbers = count()
        self._asked: dict[int, Promise[Program]] = {}
        self._programs: dict[int, Program] = {}

    @property
    def pid(self) -> int | None:
        """None before the first program, and where there are no process groups."""
        return self._process.pid if self._process else None

    async def start_program(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str | None
    ) -> Process:
        """Start a program as the head of a group of its own; hand it to `running` at once.

        Raises:
            OSError: If the system will not start it.
            ValueError: If an argument holds a NUL.
        """
        if sys.platform == "win32" or not sys.executable:
            return await start_program(command, env=env, cwd=cwd)
        words = _words(command, env, cwd)
        theirs, ours = _pipes()
        try:
            program = await self._started(words, theirs, command[0])
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)
        with anyio.CancelScope(shield=True):  # a program without streams could be ended by nobody
            await program.open(ours)
        return program

    async def close(self) -> None:
        self._hang_up()
        with anyio.CancelScope(shield=True):
            await self._end(within=_GOODBYE)

    async def _started(self, words: Sequence[bytes], theirs: Sequence[int], path: str) -> Program:
        number = next(self._numbers)
        body = b"".join(word + b"\0" for word in (b"%d" % number, *words))
        promise: Promise[Program] = Promise()
        try:
            with anyio.fail_after(_ANSWERS_WITHIN):
                await self._ask(b"%010d" % len(body) + body, theirs)
                self._asked[number] = promise
                return await promise.wait()
        except anyio.get_cancelled_exc_class():
            if promise.value:
                _kill_group(promise.value.pid)
            raise
        except TimeoutError:
            raise OSError(errno.EAGAIN, "the process that starts programs is stopped") from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            self._asked.pop(number, None)  # what is started yet is ended at once

    async def _ask(self, request: bytes, descriptors: Sequence[int]) -> None:
        async with self._turn:
            for is_last in (False, True):
                try:
                    await self._send(await self._ready(), request, descriptors)
                except _GONE:  # somebody has ended it
                    self._lose()
                    if is_last:
                        raise
                else:
                    return

    async def _send(
        self, receiver: socket.socket, request: bytes, descriptors: Sequence[int]
    ) -> None:
        left = memoryview(request)
        try:
            while left:
                try:
                    is_first = len(left) == len(request)
                    sent = socket.send_fds(receiver, [left], descriptors if is_first else ())
                    left = left[sent:]
                except BlockingIOError:  # it is stopped, or very busy
                    await anyio.wait_writable(receiver)
        finally:
            if 0 < len(left) < len(request):  # it would take the next request for the rest of this
                self._lose()

    async def _ready(self) -> socket.socket:
        """The socket of the process, which is started if it does not run yet."""
        if self._socket is None:
            with anyio.CancelScope(shield=True):
                await self._end(within=0)
                await self._start()
        if self._socket is None:
            raise AssertionError("it was started")
        return self._socket

    async def _end(self, *, within: float) -> None:
        """Wait for the process to end by itself for so many seconds; no-op if there is none."""
        if (process := self._process) is None:
            return
        with anyio.move_on_after(within):
            await process.wait()
        with suppress(ProcessLookupError):
            process.kill()
        await process.aclose()

    async def _start(self) -> None:
        env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        ours, theirs = socket.socketpair()
        try:
            require_thread()
            self._process = await anyio.open_process(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=DEVNULL,
                stderr=DEVNULL,
                env=env,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._receive)
        self._socket = ours

    def _receive(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            what, *numbers = line.split()
            self._told(what, *map(int, numbers))

    def _told(self, what: bytes, number: int, value: int) -> None:
        if what == b"ended":
            if program := self._programs.pop(number, None):
                program.set_exit(value)
            return
        promise = self._asked.get(number)
        if what == b"failed":
            if promise:
                promise.fail(OSError(value, os.strerror(value)))
        elif promise:
            program = self._programs[value] = Program(value)
            promise.set(program)
        else:
            _kill_group(value)

    def _lose(self) -> None:
        """It is gone, and nobody looks after its programs: they go, too, and are started anew."""
        self._hang_up()
        for promise in self._asked.values():
            promise.fail(OSError(errno.EPIPE, "the process that starts programs was ended"))
        programs, self._programs = self._programs, {}
        for pid, program in programs.items():
            _kill_group(pid)
            program.set_exit(-signal.SIGKILL)

    def _hang_up(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            anyio.notify_closing(self._socket)
            self._socket.close()
            self._socket = None
        self._received = b""


@asynccontextmanager
async def open_reaper() -> AsyncIterator[Reaper]:
    """Yield the reaper; on exit it goes, and ends what is left of all that it started."""
    reaper = Reaper()
    try:
        yield reaper
    finally:
        await reaper.close()


def _words(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> list[bytes]:
    """What is to be started, as the reaper reads it."""
    if any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name")
    variables = [f"{name}={value}" for name, value in env.items()]
    words = [cwd or "", str(len(command)), command[0], *command, *variables]
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    return [os.fsencode(word) for word in words]


def _pipes() -> tuple[list[int], list[int]]:
    """Three pipes: the ends for a program's stdin, stdout and stderr, and the other ends."""
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for number in range(3):
            reading, writing = os.pipe()
            theirs.append(reading if number == 0 else writing)
            ours.append(writing if number == 0 else reading)
    except OSError:
        _close([*theirs, *ours])
        raise
    return theirs, ours


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
