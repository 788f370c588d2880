"""Runs a package manager: an argument list without a shell, a time limit and bounded output.

It inherits the user's whole environment, which has its settings, proxies and credentials. It runs
in a new folder, so that settings of a project have no effect, and without a terminal, so that it
cannot prompt.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine._util.json import text_of
from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line
from discovery_engine.errors import PackageManagerError

LARGEST_OUTPUT = 8 << 20
"""The maximum number of bytes of stdout. The metadata of a package with 5,000 versions take less
than 1 MiB."""
_LARGEST_STDERR = 64 << 10  # bytes; the end is kept, as it has the reason of a failure
_LONGEST_REASON = 300  # characters

Environ: TypeAlias = Mapping[str, str]


class ManagerOutput(Struct, frozen=True):
    """The output and the exit code of a program."""

    exit_code: int
    stdout: bytes
    stderr: str


class PackageProgram(Struct, frozen=True):
    """A package manager that is installed on this machine."""

    name: str
    """The name in messages, such as `npm`."""
    argv: tuple[str, ...]
    """The command to start it; the first item is an absolute path."""
    environ: Environ

    async def run(self, *arguments: str, timeout: float, stdin: bytes = b"") -> ManagerOutput:  # noqa: ASYNC109 - of the program
        """Run it for at most `timeout` seconds; cancelled or late, it is killed with its children.

        Raises:
            PackageManagerError: If it cannot be started, does not end in time, or writes more than
                `LARGEST_OUTPUT`. A failed program raises nothing; see `ManagerOutput.exit_code`.
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
                # Temporary files of a killed program are deleted with the folder.
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
    """Return the absolute path of a program on the PATH of `environ`; None if it is not there."""
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    return os.path.abspath(path) if path else None  # noqa: PTH100 - links stay: a shim reads its name


def reason_of(output: str) -> str:
    """Return the last line of the output of a failed program, without credentials in URLs.

    It is cut at 300 characters.
    """
    lines = [line for line in map(one_line, output.splitlines()) if line]
    return without_credentials(lines[-1])[:_LONGEST_REASON] if lines else "it gave no reason"


def without_credentials(text: str) -> str:
    return re.sub(r"(?<=://)[^/\s@]+@", "•••@", text)


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Yield a new folder that no other user can write to, and delete it afterwards.

    Raises:
        PackageManagerError: If it cannot be created.
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
    """Yield a working folder and a folder for temporary files."""
    with empty_folder() as folder:
        work, temporary = folder / "work", folder / "tmp"
        with _disk_errors():
            work.mkdir()
            temporary.mkdir()
            # Else npm and uv would search the parent folders, and any user may write to `/tmp`.
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
    """Kill a process with its process group, and close its pipes."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    with anyio.CancelScope(shield=True):
        await process.aclose()


# Metadata of packages. Members of their JSON may have any type; a value of an unexpected type is
# read as empty.


class PublishedPackage(Struct, frozen=True):
    """One version of a package."""

    name: str
    version: str
    versions: tuple[str, ...] = ()
    """The versions, the newest first; without yanked ones of Python packages."""
    description: str = ""
    keywords: tuple[str, ...] = ()
    publisher: str = ""
    repository: str = ""
    homepage: str = ""
    withdrawn: str = ""
    """The reason why this version was deprecated or yanked; empty if it was not."""
    integrity: str = ""
    """The digest: `sha512-…` for npm, `sha256:…` for the wheel that would be installed here."""
    published: Mapping[str, float] = {}
    """The publication dates by version in Unix time in seconds, as far as known."""
    programs: Mapping[str, str] = {}
    """The files of the programs by name; for npm only."""
    has_install_scripts: bool = False
    """True if the installation runs scripts of the package."""

    @property
    def program(self) -> str:
        """Return the program that `npx PACKAGE` runs; empty if there is none, or several fit."""
        unscoped = self.name.rpartition("/")[2]
        if unscoped not in self.programs and len(set(self.programs.values())) == 1:
            return next(iter(self.programs))
        return unscoped if unscoped in self.programs else ""


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the strings of a list; a lone string counts as a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def unix_time(value: Any) -> float:
    """Return an ISO 8601 date as Unix time in seconds; 0 if it is not a date."""
    try:
        date = value if isinstance(value, datetime) else datetime.fromisoformat(text_of(value))
        return date.timestamp()
    except (ValueError, OverflowError):
        return 0.0


_VERSION_TIMEOUT = 5.0  # seconds; `docker --version` needs no daemon
_VERSIONS: dict[tuple[str, int], str] = {}
"""Versions by path and modification time of the program. Without this cache each npm check takes
0.25 s of CPU."""
_ASKED_OF = {"dnx": "dotnet"}
"""Programs whose version another one prints: `dnx` is a script around `dotnet`, and reads
`--version` as the version of a package."""


class Prerequisite(Struct, frozen=True):
    """A required program and its state on this machine."""

    program: str
    path: str = ""
    """Empty if it is not on the PATH."""
    version: str = ""
    problem: str = ""
    """The reason why it cannot be used; empty if it can."""
    hint: str = ""
    """Instructions for installing it; empty if it can be used."""

    @property
    def is_usable(self) -> bool:
        return not self.problem


class Prerequisites:
    """Looks up programs and their versions, each once; results are cached.

    `timeout` is the number of seconds in which a program has to print its version.
    """

    def __init__(self, environ: Environ, *, timeout: float = _VERSION_TIMEOUT) -> None:
        self._environ = environ
        self._timeout = timeout
        self._found: dict[str, Prerequisite] = {}

    async def probe(self, programs: Iterable[str]) -> tuple[Prerequisite, ...]:
        """Return the state of each program in this order; new ones are run concurrently."""
        names = tuple(dict.fromkeys(programs))
        async with open_task_group() as tasks:
            for program in names:
                if program not in self._found:
                    tasks.start_soon(self._remember, program)
        return tuple(self._found[program] for program in names)

    async def _remember(self, program: str) -> None:
        self._found[program] = await self._probed(program)

    async def _probed(self, program: str) -> Prerequisite:
        hint = INSTALL_HINTS.get(program, "")
        path = find_program(program, self._environ)
        if path is None:
            return Prerequisite(program, problem="it is not on the PATH", hint=hint)
        executable = find_program(_ASKED_OF.get(program, program), self._environ)
        if executable is None:
            return Prerequisite(program, path, problem="it needs dotnet", hint=hint)
        if (version := _VERSIONS.get(key := _file_key(executable))) is not None:
            return Prerequisite(program, path, version=version)
        command = PackageProgram(program, (executable,), self._environ)
        try:
            output = await command.run("--version", timeout=self._timeout)
        except PackageManagerError as error:
            return Prerequisite(program, path, problem=error.message, hint=hint)
        text = output.stdout.decode("utf-8", "replace")
        if output.exit_code:
            reason = reason_of(output.stderr or text)
            return Prerequisite(program, path, problem=f"it does not run: {reason}", hint=hint)
        _VERSIONS[key] = _version(text)
        return Prerequisite(program, path, version=_VERSIONS[key])


def _file_key(path: str) -> tuple[str, int]:
    """Return a key that changes whenever the program is replaced; links are followed."""
    try:
        return path, Path(path).stat().st_mtime_ns
    except OSError:
        return path, 0


def _version(text: str) -> str:
    match = re.search(r"\d+(?:\.\d+)+\S*", one_line(text))
    return match[0].rstrip(",") if match else ""
