"""A child process with everything it started: one group, drained, and always ended.

Its error output is read all the time, or a full pipe would stop it, a little at a time, or a flood
of it would stop everybody else; only the end is kept.
Stopping is gentle first and sure at last: its input is closed, then the group is asked to
terminate, then killed.
"""

from __future__ import annotations

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
from typing import TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.lowlevel import checkpoint

_TERM_AFTER = 1.0  # seconds from the closed input to SIGTERM
_KILL_AFTER = 3.0  # seconds from the closed input to SIGKILL
_REAP_WITHIN = 2.0  # seconds for the kernel to hand over a killed child
_ORPHANS_WITHIN = 0.5  # seconds that a dead program's own children get after SIGTERM
_POLL = 0.02  # seconds between looks at a group whose members are not our children

_CHUNK = 16 * 1024  # bytes of error output read at a time: half a millisecond if lines are short
_CHUNKS = 4  # read before a rest
_LINE_SIZE = 8 * 1024  # characters kept of one line
_TAIL_LINES = 20

_SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has but one way to end

OnLines: TypeAlias = Callable[[Sequence[str]], None]
Rest: TypeAlias = Callable[[], Awaitable[None]]

_VISIBLE = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160)) if chr(c) != "\t"}


class StderrBuffer:
    """The last lines that a program wrote to its error output, terminal controls made visible."""

    def __init__(self, on_lines: OnLines = lambda _lines: None) -> None:
        self._on_lines = on_lines
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._open = ""

    def add(self, chunk: bytes) -> None:
        self._add(self._decoder.decode(chunk))

    def end(self) -> None:
        """No more will come, not even the end of the line that was begun."""
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


class ChildProcess:
    """A running program; made by `running`, which ends it."""

    def __init__(self, process: Process, on_lines: OnLines, rest: Rest) -> None:
        self._process = process
        self._rest = rest
        self._watching = anyio.CancelScope(shield=True)
        self._gone = anyio.Event()  # the program and whatever it started
        self.stderr = StderrBuffer(on_lines)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> ByteSendStream:
        if self._process.stdin is None:
            raise AssertionError("started with a pipe")
        return self._process.stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        if self._process.stdout is None:
            raise AssertionError("started with a pipe")
        return self._process.stdout

    async def exit_reason(self, *, within: float = 1.0) -> str:
        """How it ended, in words; waits up to `within` seconds for it to end."""
        with anyio.move_on_after(within):
            await self._process.wait()
        match self._process.returncode:
            case None:
                return "closed its output and still runs"
            case code if code < 0:
                return f"was ended by {_signal_name(-code)}"
            case code:
                return f"exited with status {code}"

    async def watch(self) -> None:
        """Drain the error output and, once the program is gone, end what it left behind.

        A grandchild that holds the pipes open would otherwise hide that the server is dead. Goes
        on when the session is cancelled: the goodbye needs it. `stop` ends it.
        """
        with self._watching:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain)
                await self._process.wait()
                await self._end_orphans()
                self._gone.set()

    async def stop(self) -> None:
        """Close its input and see it and its group off; takes at most about five seconds."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
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
            while self._signal(0):  # noqa: ASYNC110 - nobody tells us of their end
                await anyio.sleep(_POLL)
        self._signal(_SIGKILL)

    async def _exits(self, *, within: float) -> bool:
        with anyio.move_on_after(within):
            await self._process.wait()
        return self._process.returncode is not None

    async def _drain(self) -> None:
        if self._process.stderr is None:
            raise AssertionError("started with a pipe")
        read = 0
        try:
            while True:
                chunk = await self._process.stderr.receive(_CHUNK)
                self.stderr.add(chunk)
                read += len(chunk)
                if read >= _CHUNKS * _CHUNK:
                    read = 0
                    await self._rest()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self.stderr.end()

    def _signal(self, number: int) -> bool:
        """Send a signal to the whole group; False if nobody is left in it."""
        if sys.platform == "win32":  # knows no groups, and no gentle way
            if number:
                with suppress(ProcessLookupError):  # it has ended by itself
                    self._process.terminate()
            return False
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


async def start_program(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str | None
) -> Process:
    """Start a program as the head of a group of its own; hand it to `running` at once.

    Raises:
        OSError: If the system will not start it.
        ValueError: If an argument holds a NUL.
    """
    require_thread()
    with anyio.CancelScope(shield=True):  # half a start could not be ended by anybody
        process = await anyio.open_process(
            command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd, env=env, start_new_session=True
        )
    return process  # noqa: RET504 - to mypy, a scope might swallow what is raised in it


def require_thread() -> None:
    """To be called before a program is started, which asyncio may need a thread to wait for.

    If it gets none, it leaves the program running, and nobody knows of it.

    Raises:
        OSError: If no thread can be started.
    """
    try:
        threading.Thread(target=int).start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from error


@asynccontextmanager
async def running(
    process: Process, *, on_lines: OnLines = lambda _lines: None, rest: Rest = checkpoint
) -> AsyncIterator[ChildProcess]:
    """Look after a program while it is needed, and end it on exit.

    `on_lines` is told each line of its error output, some at a time; `rest` is waited for in
    between if there are many.
    """
    child = ChildProcess(process, on_lines, rest)
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
