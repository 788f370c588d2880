"""A child process with its process group: stderr is drained, and the group is always ended.

stderr is read continuously, because a full pipe would block the program, and at a bounded rate,
because a flood would block the event loop. Only the last lines are kept.
To stop a program, its stdin is closed; then its group gets SIGTERM, then SIGKILL.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import threading
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from discovery_engine.upstream.stdio.pipes import PipeReader, PipeWriter

_TERM_AFTER = 1.0  # seconds from the closed input to SIGTERM
_KILL_AFTER = 3.0  # seconds from the closed input to SIGKILL
_REAP_WITHIN = 2.0  # seconds for the kernel to report a killed child
_ORPHANS_WITHIN = 0.5  # seconds that the children of an exited program get after SIGTERM
_POLL = 0.02  # seconds between checks of a group whose members are not our children

_CHUNK = 16 * 1024  # bytes of stderr per read: half a millisecond if lines are short
_CHUNKS = 4  # reads before a pause
_LINE_SIZE = 8 * 1024  # characters kept of one line
_TAIL_LINES = 20

_SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has only one way to end a process

OnLines: TypeAlias = Callable[[Sequence[str]], None]
Pause: TypeAlias = Callable[[], Awaitable[None]]

_VISIBLE = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160)) if chr(c) != "\t"}


class StderrBuffer:
    """The last stderr lines of a program, with control characters escaped."""

    def __init__(self, on_lines: OnLines = lambda _lines: None) -> None:
        self._on_lines = on_lines
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._open = ""

    def add(self, chunk: bytes) -> None:
        self._add(self._decoder.decode(chunk))

    def end(self) -> None:
        """The stream has ended; an unfinished line counts as a line."""
        self._add(self._decoder.decode(b"", final=True))
        if self._open:
            self._keep([self._open])
            self._open = ""

    @property
    def tail(self) -> str:
        recent = [*self._lines, self._open] if self._open else list(self._lines)
        lines = (line.rstrip().translate(_VISIBLE) for line in recent[-_TAIL_LINES:])
        return "\n".join(lines)

    def _add(self, text: str) -> None:
        *ends, rest = text.split("\n")
        if ends:
            self._keep([self._open + ends[0], *ends[1:]])
            self._open = ""
        self._open = (self._open + rest)[:_LINE_SIZE]

    def _keep(self, lines: Sequence[str]) -> None:
        self._on_lines(lines)
        self._lines.extend(line[:_LINE_SIZE] for line in lines[-_TAIL_LINES:])


class Program(Protocol):
    """A program that was started, with its pipes."""

    stdin: PipeWriter
    stdout: PipeReader
    stderr: PipeReader

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """Its exit status, or minus the signal that ended it; None while it runs."""

    async def wait(self) -> int:
        """Wait for its exit and return its `returncode`."""

    def terminate(self) -> None: ...

    async def aclose(self) -> None:
        """Close its pipes and wait for its exit; kills it if that is cancelled."""


class ChildProcess:
    """A running program; created by `supervise`, which ends it."""

    def __init__(self, process: Program, on_lines: OnLines, pause: Pause) -> None:
        self._process = process
        self._pause = pause
        self._watching = anyio.CancelScope(shield=True)
        self._gone = anyio.Event()  # the program and all it started
        self.stderr = StderrBuffer(on_lines)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> PipeWriter:
        return self._process.stdin

    @property
    def stdout(self) -> PipeReader:
        return self._process.stdout

    async def exit_reason(self) -> str:
        """Return how it exited, in words; waits at most a second for its exit."""
        with anyio.move_on_after(1.0):
            await self._process.wait()
        match self._process.returncode:
            case None:
                return "closed its output and still runs"
            case code if code < 0:
                return f"was ended by {_signal_name(-code)}"
            case code:
                return f"exited with status {code}"

    async def watch(self) -> None:
        """Drain stderr and, after the program has exited, end the rest of its group.

        A grandchild that keeps the pipes open would otherwise hide the exit. It continues when the
        session is cancelled, because `stop` needs it; `stop` ends it.
        """
        with self._watching:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain)
                await self._process.wait()
                await self._end_orphans()
                self._gone.set()

    async def stop(self) -> None:
        """Close its stdin and end it and its group; takes at most about five seconds."""
        await self.stdin.aclose()
        if not await self._exits(within=_TERM_AFTER):
            self._signal(signal.SIGTERM)
            if not await self._exits(within=_KILL_AFTER - _TERM_AFTER):
                self._signal(_SIGKILL)
        with anyio.move_on_after(_REAP_WITHIN):
            await self._gone.wait()
        self._watching.cancel()

    async def _end_orphans(self) -> None:
        if not self._signal(signal.SIGTERM):
            return
        with anyio.move_on_after(_ORPHANS_WITHIN):
            while self._signal(0):  # noqa: ASYNC110 - their exit raises no event here
                await anyio.sleep(_POLL)
        self._signal(_SIGKILL)

    async def _exits(self, *, within: float) -> bool:
        with anyio.move_on_after(within):
            await self._process.wait()
        return self._process.returncode is not None

    async def _drain(self) -> None:
        read = 0
        try:
            while True:
                chunk = await self._process.stderr.receive(_CHUNK)
                self.stderr.add(chunk)
                read += len(chunk)
                if read >= _CHUNKS * _CHUNK:
                    read = 0
                    await self._pause()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self.stderr.end()

    def _signal(self, number: int) -> bool:
        """Send a signal to the whole group; False if it is empty."""
        if sys.platform == "win32":  # no process groups and no SIGTERM
            if number:
                with suppress(ProcessLookupError):  # it has exited
                    self._process.terminate()
            return False
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class LocalProgram:
    """A program that asyncio started: where there is no reaper."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if not (process.stdin and process.stdout and process.stderr):
            raise AssertionError("started with pipes")
        self._process = process
        self.stdin = PipeWriter(process.stdin)
        self.stdout = PipeReader(process.stdout)
        self.stderr = PipeReader(process.stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    def terminate(self) -> None:
        self._process.terminate()

    async def aclose(self) -> None:
        self.stdin.abort()
        for stream in (self.stdout, self.stderr):
            await stream.aclose()
        try:
            await self.wait()
        except BaseException:
            with suppress(ProcessLookupError):  # it has exited
                self._process.kill()
            raise


async def start_program(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str | None
) -> LocalProgram:
    """Start a program as the leader of its own group; pass it to `supervise` at once.

    Raises:
        OSError: If the system will not start it.
        ValueError: If an argument contains a NUL.
    """
    require_thread()
    with anyio.CancelScope(shield=True):  # a half-started program could not be ended
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd, env=env, start_new_session=True
        )
    return LocalProgram(process)


def require_thread() -> None:
    """Check that a thread can be started; asyncio may need one to wait for a program.

    Without one, asyncio would leave the program running, unwatched.

    Raises:
        OSError: If no thread can be started.
    """
    try:
        threading.Thread(target=int).start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from error


@asynccontextmanager
async def supervise(
    process: Program, *, on_lines: OnLines = lambda _lines: None, pause: Pause = checkpoint
) -> AsyncIterator[ChildProcess]:
    """Supervise a program during the block, and end it on exit.

    `on_lines` is called with the stderr lines; `pause` is awaited between reads of a flood.
    """
    child = ChildProcess(process, on_lines, pause)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.watch)
            try:
                yield child
            finally:
                with anyio.CancelScope(shield=True):
                    await child.stop()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_WITHIN):
            await process.aclose()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
