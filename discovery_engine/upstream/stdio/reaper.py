"""The programs that we started do not outlive us, not even if we are killed.

A small process of its own hears of every group that we start; when we are gone it ends those
that are left. There is one for all, and none before the first program.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from discovery_engine.upstream.stdio.process import check_for_room

_PROGRAM = Path(__file__).with_name("reaper_program.py")
_ENVIRONMENT = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH")  # what a Python may need to start
_GOODBYE = 2.0  # seconds
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

logger = logging.getLogger(__name__)


class Reaper:
    """Made by `open_reaper`, which ends it."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._pipe: int | None = None
        self._groups: set[int] = set()
        self._turn = anyio.Lock()

    @property
    def pid(self) -> int | None:
        """None before the first program, and where there are no process groups."""
        return self._process.pid if self._process else None

    async def ready(self) -> None:
        """Start the process if it does not run yet.

        Raises:
            OSError: If the system has no room for it; then it has none for a program either.
        """
        if sys.platform == "win32" or not sys.executable:
            return
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if self._process is None:
                    await self._start()

    @asynccontextmanager
    async def watching(self, group: int) -> AsyncIterator[None]:
        """Have a group ended if we die within the block; never fails."""
        self._groups.add(group)
        try:
            await self._tell(b"+%d\n" % group)
            yield
        finally:
            self._groups.discard(group)
            await self._tell(b"-%d\n" % group)

    async def close(self) -> None:
        if (process := self._process) is None:
            return
        self._hang_up()
        with anyio.CancelScope(shield=True), suppress(*_BROKEN):
            with anyio.move_on_after(_GOODBYE):
                await process.wait()
            await process.aclose()

    async def _tell(self, line: bytes) -> None:
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if self._process is None:
                    return
                try:
                    self._send(line)
                except _BROKEN:
                    await self._replace()

    async def _replace(self) -> None:
        """Somebody has ended it: another one looks after what runs now."""
        process, self._process = self._process, None
        try:
            self._hang_up()
            if process:
                await process.aclose()
            await self._start()
        except _BROKEN:
            logger.warning("There is no reaper: if this process is killed, its servers live on")

    async def _start(self) -> None:
        """Start the process, and name it the groups that are there already."""
        env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        reading, self._pipe = os.pipe()
        try:
            check_for_room()
            self._process = await anyio.open_process(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
                stdin=reading,
                stdout=DEVNULL,
                stderr=DEVNULL,
                cwd="/",
                env=env,
                start_new_session=True,
            )
        except BaseException:
            self._hang_up()
            raise
        finally:
            os.close(reading)
        self._send(b"".join(b"+%d\n" % group for group in self._groups))

    def _send(self, line: bytes) -> None:
        # Past the event loop, which would take one more line for a reader that is gone.
        if self._pipe is not None:
            os.write(self._pipe, line)

    def _hang_up(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


@asynccontextmanager
async def open_reaper() -> AsyncIterator[Reaper]:
    """Yield the reaper; on exit it goes, and ends what is still watched."""
    reaper = Reaper()
    try:
        yield reaper
    finally:
        await reaper.close()
