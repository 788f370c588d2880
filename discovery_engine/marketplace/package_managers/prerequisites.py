"""The programs that start packages: whether they are here, which version, and how to get them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line
from discovery_engine.errors import PackageManagerError
from discovery_engine.marketplace.package_managers.manager_command import (
    Environ,
    PackageProgram,
    find_program,
    reason_of,
)

RUNTIMES: Mapping[str, tuple[str, ...]] = {
    "npm": ("npx", "npm"),
    "pypi": ("uvx", "uv"),
    "oci": ("docker",),
    "nuget": ("dnx",),
    "mcpb": (),
}
"""The programs that start a package of each registry; the one that runs its servers is first."""
_TIMEOUT = 5.0  # seconds; `docker --version` does not wait for its daemon
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

    def __init__(self, environ: Environ, *, timeout: float = _TIMEOUT) -> None:
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


def _version(written: str) -> str:
    match = re.search(r"\d+(?:\.\d+)+\S*", one_line(written))
    return match[0].rstrip(",") if match else ""
