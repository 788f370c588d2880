"""One run of a package manager: an argument list, no shell, a time limit and bounded output.

It has the user's whole environment, as its settings, proxies and credentials are there. It runs in
an empty folder, so that a project's own settings do not count, and without a terminal, so that it
can ask nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line
from discovery_engine.errors import PackageManagerError

LARGEST_OUTPUT = 8 << 20
"""Bytes of stdout. The document of a package with 5,000 versions is below 1 MiB."""
_LARGEST_STDERR = 64 << 10  # bytes; its end has the reason
_LONGEST_REASON = 300  # characters

Environ: TypeAlias = Mapping[str, str]


class ManagerOutput(Struct, frozen=True):
    """The output of a program, and its exit code."""

    exit_code: int
    stdout: bytes
    stderr: str


class PackageProgram(Struct, frozen=True):
    """A package manager that is on this machine."""

    name: str
    """The name in messages, such as `npm`."""
    argv: tuple[str, ...]
    """How it is started, with an absolute path first."""
    environ: Environ

    async def run(self, *arguments: str, timeout: float, stdin: bytes = b"") -> ManagerOutput:  # noqa: ASYNC109 - of the program
        """Run it; a run that is cancelled, or takes too long, is killed with its children.

        Raises:
            PackageManagerError: If it cannot be started, takes too long or writes too much.
        """
        with _folders() as (work, temporary):
            return await self._run(arguments, work, temporary, timeout, stdin)

    async def _run(
        self,
        arguments: Sequence[str],
        work: Path,
        temporary: Path,
        timeout: float,  # noqa: ASYNC109 - of the program
        stdin: bytes,
    ) -> ManagerOutput:
        try:
            process = await anyio.open_process(
                [*self.argv, *arguments],
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                cwd=work,
                # What a killed program leaves is deleted with the folder.
                env=dict(self.environ) | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary)),
                start_new_session=True,
            )
        except OSError as error:
            raise PackageManagerError(
                f"{self.name} cannot be started: {error.strerror or error}",
                hint=f"check `{Path(self.argv[0]).name} --version`",
            ) from error
        try:
            with anyio.fail_after(timeout):
                output = await _communicate(process, stdin, self.name)
        except TimeoutError:
            await _kill(process)
            raise PackageManagerError(
                f"{self.name} did not finish within {timeout:g} s",
                hint="check the network, or try again later",
            ) from None
        except BaseException:
            await _kill(process)
            raise
        await process.aclose()
        return output


def find_program(name: str, environ: Environ) -> str | None:
    """The absolute path of a program on the PATH of `environ`; None if there is none."""
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    return os.path.abspath(path) if path else None  # noqa: PTH100 - links stay: a shim reads its name


def reason_of(output: str) -> str:
    """The reason in the output of a failed program: its last line, without credentials in URLs."""
    lines = [line for line in map(one_line, output.splitlines()) if line]
    return without_credentials(lines[-1])[:_LONGEST_REASON] if lines else "it gave no reason"


def without_credentials(text: str) -> str:
    return re.sub(r"(?<=://)[^/\s@]+@", "•••@", text)


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A new folder that no other user can write to; it is deleted at the end.

    Raises:
        PackageManagerError: If it cannot be made.
    """
    with ExitStack() as stack:
        with _disk_errors():
            temporary_folder = tempfile.TemporaryDirectory(
                prefix="discovery-", ignore_cleanup_errors=True
            )
            folder = Path(stack.enter_context(temporary_folder))
        yield folder


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    """A folder to work in, and one for temporary files."""
    with empty_folder() as folder:
        work, temporary = folder / "work", folder / "tmp"
        with _disk_errors():
            work.mkdir()
            temporary.mkdir()
            # npm and uv look for these in the folders above, and every user may write to `/tmp`.
            (work / "package.json").write_text("{}", "utf-8")
            (work / "uv.toml").touch()
        yield work, temporary


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PackageManagerError(
            f"no temporary folder can be made: {error.strerror or error}",
            hint="check the space on the disk, and $TMPDIR",
        ) from error


async def _communicate(process: Process, stdin: bytes, name: str) -> ManagerOutput:
    stdout, stderr = bytearray(), bytearray()

    async def write() -> None:
        if process.stdin is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await process.stdin.send(stdin)
            await process.stdin.aclose()

    async def keep_end() -> None:
        async for piece in _pieces(process.stderr):
            stderr.extend(piece)
            del stderr[:-_LARGEST_STDERR]

    async with open_task_group() as tasks:
        tasks.start_soon(write)
        tasks.start_soon(keep_end)
        async for piece in _pieces(process.stdout):
            stdout.extend(piece)
            if len(stdout) > LARGEST_OUTPUT:
                raise PackageManagerError(
                    f"{name} wrote more than {LARGEST_OUTPUT >> 20} MiB; its answer is not used"
                )
    code = await process.wait()
    return ManagerOutput(code, bytes(stdout), stderr.decode("utf-8", "replace"))


async def _pieces(stream: ByteReceiveStream | None) -> AsyncIterator[bytes]:
    if stream is not None:
        async for piece in stream:
            yield piece


async def _kill(process: Process) -> None:
    """Kill it and what it started, and release its pipes."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    with anyio.CancelScope(shield=True):
        await process.aclose()
