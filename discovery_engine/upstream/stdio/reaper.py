"""Starts programs through a reaper process, so that none outlives this process, even if killed.

A small separate process (`reaper_program`) starts all programs, so they and their descendants are
its children, not ours. When this process is gone, the reaper ends all that is left. There is one
reaper, started with the first program.
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
from discovery_engine.rpc.messages import RequestTimeout
from discovery_engine.rpc.request_timer import RequestTimeLimit
from discovery_engine.upstream.stdio.pipes import PipeReader, PipeWriter
from discovery_engine.upstream.stdio.process import Program, require_thread, start_program

_PROGRAM = Path(__file__).with_name("reaper_program.py")
_ENVIRONMENT = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH")  # needed to start some Pythons
_ANSWER_WITHIN = 10.0  # seconds; it takes milliseconds unless the reaper is stopped (SIGSTOP)
_EXIT_WITHIN = 2.0  # seconds
_GONE = (BrokenPipeError, ConnectionResetError, anyio.ClosedResourceError)


class ReapedProgram:
    """A program that the reaper started."""

    stdin: PipeWriter
    stdout: PipeReader
    stderr: PipeReader

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
        """Open streams over our ends of its three pipes."""
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
            raise AssertionError("it has exited")
        return self._returncode

    def send_signal(self, signal: int) -> None:
        if self._returncode is None:
            os.kill(self._pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def aclose(self) -> None:
        self.stdin.abort()
        for stream in (self.stdout, self.stderr):
            await stream.aclose()
        try:
            await self.wait()
        except BaseException:
            self.kill()
            raise


class Reaper:
    """Created by `open_reaper`, which ends it."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._socket: socket.socket | None = None
        self._received = b""
        self._turn = anyio.Lock()
        self._numbers = count()
        self._requests: dict[int, Promise[ReapedProgram]] = {}
        self._programs: dict[int, ReapedProgram] = {}

    @property
    def pid(self) -> int | None:
        """The reaper's pid; None before the first program, and without process groups."""
        return self._process.pid if self._process else None

    async def start_program(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        confinement: Sequence[str] = (),
    ) -> Program:
        """Start a program as the leader of its own group; pass it to `supervise` at once.

        `confinement` are the words of its sandbox, for `sandbox.confinement`; none for no sandbox.

        Raises:
            OSError: If the system will not start it.
            ValueError: If an argument contains a NUL.
        """
        if sys.platform == "win32" or not sys.executable:
            if confinement:
                raise OSError(errno.ENOTSUP, "no sandbox here")
            return await start_program(command, env=env, cwd=cwd)
        words = _encoded_request(command, env, cwd, confinement)
        theirs, ours = _pipes()
        try:
            program = await self._started(words, theirs, command[0])
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)
        with anyio.CancelScope(shield=True):  # a program without streams could not be ended
            await program.open(ours)
        return program

    async def close(self) -> None:
        self._disconnect()
        with anyio.CancelScope(shield=True):
            await self._end(within=_EXIT_WITHIN)

    async def _started(
        self, words: Sequence[bytes], theirs: Sequence[int], path: str
    ) -> ReapedProgram:
        number = next(self._numbers)
        body = b"".join(word + b"\0" for word in (b"%d" % number, *words))
        promise: Promise[ReapedProgram] = Promise()
        try:
            with RequestTimeLimit(RequestTimeout(_ANSWER_WITHIN)):
                await self._request(b"%010d" % len(body) + body, theirs)
                self._requests[number] = promise
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
            self._requests.pop(number, None)  # a later `started` reply ends the program at once

    async def _request(self, request: bytes, descriptors: Sequence[int]) -> None:
        async with self._turn:
            for is_last in (False, True):
                try:
                    await self._send(await self._ready(), request, descriptors)
                except _GONE:  # the reaper was killed: start another one and retry once
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
                except BlockingIOError:  # it is stopped or very busy
                    await anyio.wait_writable(receiver)
        finally:
            # It would read the next request as the rest of this one.
            if 0 < len(left) < len(request):
                self._lose()

    async def _ready(self) -> socket.socket:
        """The socket of the reaper, which is started if it is not running."""
        if self._socket is None:
            with anyio.CancelScope(shield=True):
                await self._end(within=0)
                await self._start()
        if self._socket is None:
            raise AssertionError("it was started")
        return self._socket

    async def _end(self, *, within: float) -> None:
        """Wait up to `within` seconds for the reaper to exit, then kill it; no-op without one."""
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
            self._on_reply(what, *map(int, numbers))

    def _on_reply(self, what: bytes, number: int, value: int) -> None:
        if what == b"ended":
            if program := self._programs.pop(number, None):
                program.set_exit(value)
            return
        promise = self._requests.get(number)
        if what == b"failed":
            if promise:
                promise.fail(OSError(value, os.strerror(value)))
        elif promise:
            program = self._programs[value] = ReapedProgram(value)
            promise.set(program)
        else:
            _kill_group(value)

    def _lose(self) -> None:
        """The reaper is gone: end its programs, which nothing supervises any more."""
        self._disconnect()
        for promise in self._requests.values():
            promise.fail(OSError(errno.EPIPE, "the process that starts programs was ended"))
        programs, self._programs = self._programs, {}
        for pid, program in programs.items():
            _kill_group(pid)
            program.set_exit(-signal.SIGKILL)

    def _disconnect(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            anyio.notify_closing(self._socket)
            self._socket.close()
            self._socket = None
        self._received = b""


@asynccontextmanager
async def open_reaper() -> AsyncIterator[Reaper]:
    """Yield the reaper; on exit it ends all that it started, and itself."""
    reaper = Reaper()
    try:
        yield reaper
    finally:
        await reaper.close()


def _encoded_request(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, confinement: Sequence[str]
) -> list[bytes]:
    """A start request in the format of `reaper_program`."""
    if any("=" in name or not name for name in env):
        raise ValueError("illegal environment variable name")
    variables = [f"{name}={value}" for name, value in env.items()]
    words = [cwd or "", str(len(confinement)), *confinement]
    words += [str(len(command)), command[0], *command, *variables]
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
