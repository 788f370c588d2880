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
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from discovery_engine._util.install_hints import INSTALL_HINTS
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


# A package as its manager describes it, in JSON whose members may have any type: what is not as
# expected is read as empty.


class PublishedPackage(Struct, frozen=True):
    """One version of a package."""

    name: str
    version: str
    versions: tuple[str, ...] = ()
    """The newest first; of Python packages those that are not yanked."""
    description: str = ""
    keywords: tuple[str, ...] = ()
    publisher: str = ""
    repository: str = ""
    homepage: str = ""
    withdrawn: str = ""
    """Why this version is deprecated or yanked, if it is."""
    integrity: str = ""
    """`sha512-…` of npm; `sha256:…` of the wheel that would be installed here."""
    published: Mapping[str, float] = {}
    """When each version was published, as Unix time in seconds, as far as it is known."""
    programs: Mapping[str, str] = {}
    """Of npm: the names of its programs, and the file of each."""
    has_install_scripts: bool = False
    """True if installing the package runs scripts of its author."""

    @property
    def program(self) -> str:
        """The program that `npx PACKAGE` runs; empty if it has none, or cannot choose."""
        unscoped = self.name.rpartition("/")[2]
        if unscoped not in self.programs and len(set(self.programs.values())) == 1:
            return next(iter(self.programs))
        return unscoped if unscoped in self.programs else ""


def object_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def texts_of(value: Any) -> tuple[str, ...]:
    """The strings of a list; a lone string is a list of one."""
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


_VERSION_TIMEOUT = 5.0  # seconds; `docker --version` does not wait for its daemon
_VERSIONS: dict[tuple[str, int], str] = {}
"""Versions that programs have printed to this process; npm takes 0.25 s of CPU to do so."""
_ASKED_OF = {"dnx": "dotnet"}
"""dnx is a script around `dotnet`, and takes `--version` for that of a package."""


class Prerequisite(Struct, frozen=True):
    """A program that is needed, as it is on this machine."""

    program: str
    path: str = ""
    """Empty if it is not on the PATH."""
    version: str = ""
    problem: str = ""
    """Why it cannot be used; empty if it can."""
    hint: str = ""
    """How to get it, if it cannot be used."""

    @property
    def is_usable(self) -> bool:
        return not self.problem


class Prerequisites:
    """Looks for programs once each; later questions are answered from memory."""

    def __init__(self, environ: Environ, *, timeout: float = _VERSION_TIMEOUT) -> None:
        self._environ = environ
        self._timeout = timeout
        self._found: dict[str, Prerequisite] = {}

    async def probe(self, programs: Iterable[str]) -> tuple[Prerequisite, ...]:
        """Each program, in this order; those not known yet are started at once, side by side."""
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
    """The same as long as a program is; a link counts as what it leads to."""
    try:
        return path, Path(path).stat().st_mtime_ns
    except OSError:
        return path, 0


def _version(text: str) -> str:
    match = re.search(r"\d+(?:\.\d+)+\S*", one_line(text))
    return match[0].rstrip(",") if match else ""
