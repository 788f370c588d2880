"""Finds the program of a server, which is started from an argument list, never through a shell."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine.config.settings import StdioTransport
from discovery_engine.config.syntax import (
    CONTAINER_CLIENTS,
    PACKAGE_RUNNERS,
    command_words,
    program_name,
)
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.tools.model import ServerName

Which: TypeAlias = Callable[..., "str | None"]

_REMOTE = ("ssh", "wsl")  # their arguments are read by a shell of another machine


def on_this_machine(
    server: ServerName,
    stdio: StdioTransport,
    env: Mapping[str, str],
    *,
    which: Which = shutil.which,
) -> StdioTransport:
    """The transport with the path of its program, looked up on the `PATH` of its own environment.

    `~` at the start of a word is the home folder. A command that is none here and was written on
    Windows (`cmd /c npx`, `npx.cmd`) is read as that of this machine.

    Raises:
        UnavailableError: If it or its working directory does not exist, or is not executable.
    """
    stdio = _with_home(stdio)
    cwd = _working_directory(server, stdio)
    path = env.get("PATH", os.defpath)
    command, *args = words = [stdio.command, *stdio.args]
    executable = which(_located(command, cwd), path=path)
    if executable is None:
        command, *args = command_words(command, args)
        command = _usual_name(command)
        if [command, *args] != words:
            executable = which(_located(command, cwd), path=path)
    if executable:
        return replace(stdio, command=executable, args=tuple(args))
    if program := _unexecutable(_located(command, cwd), path):
        raise _failed(
            server,
            FailureKind.PERMISSION,
            f"program {Path(program).name!r} may not be executed",
            hint="make it executable (`chmod +x`), or name its interpreter as `command`",
            detail=f"it is {program}",
        )
    raise _not_found(server, command, path)


def _with_home(stdio: StdioTransport) -> StdioTransport:
    """The transport with the home folder for `~`, where a path of this machine can stand."""
    args, name = stdio.args, program_name(stdio.command)
    last = 0 if name in _REMOTE else len(args)
    if name in CONTAINER_CLIENTS:  # what follows the image is read in the container
        from discovery_engine.upstream.stdio.sandbox import container_run  # noqa: PLC0415

        last = run.end if (run := container_run.read_run(args)) else 0
    return replace(
        stdio,
        command=os.path.expanduser(stdio.command),  # noqa: PTH111 - a bare name must stay one
        args=(*map(_expanded, args[:last]), *args[last:]),
        cwd=stdio.cwd and os.path.expanduser(stdio.cwd),  # noqa: PTH111 - as above
    )


def _expanded(word: str) -> str:
    is_path = word == "~" or word.startswith(("~/", "~\\"))
    return os.path.expanduser(word) if is_path else word  # noqa: PTH111 - that of `pathlib` raises


def _usual_name(command: str) -> str:
    """The name that a program of Windows has here; its path if that may be any program."""
    name = program_name(command)
    is_usual = name in PACKAGE_RUNNERS or name in INSTALL_HINTS
    return name if is_usual or command.lower().startswith(f"{name}.") else command


def _located(command: str, cwd: str | None) -> str:
    """The absolute path of a command that is a path; `server` is a name, `./server` is none."""
    is_path = os.path.dirname(command)  # noqa: PTH120 - see above
    return str(Path(cwd or ".").absolute() / command) if is_path else command


def _failed(
    server: ServerName, kind: FailureKind, reason: str, *, hint: str, detail: str
) -> UnavailableError:
    """`detail` contains the paths, which only the owner may read."""
    error = UnavailableError(server, kind, reason, hint=hint)
    error.detail = detail
    return error


def _working_directory(server: ServerName, stdio: StdioTransport) -> str | None:
    if stdio.cwd is None or os.path.isdir(stdio.cwd):  # noqa: PTH112 - see `_unexecutable`
        return stdio.cwd
    raise _failed(
        server,
        FailureKind.NOT_FOUND,
        "its working directory does not exist",
        hint=f"correct `cwd` of server {server!r}",
        detail=f"it is {stdio.cwd}",
    )


def _unexecutable(command: str, path: str) -> str | None:
    candidates = (Path(folder or ".") / command for folder in path.split(os.pathsep))
    # `Path.is_file` raises for a name that is too long or has a NUL; `os.path.isfile` does not.
    return next((str(c) for c in candidates if os.path.isfile(c)), None)  # noqa: PTH113


def _not_found(server: ServerName, command: str, path: str) -> UnavailableError:
    name = re.split(r"[/\\]", command)[-1]
    if name != command:
        system = ", which is one of Windows" if "\\" in command and os.sep == "/" else ""
        reason, detail = (
            f"there is no program {name!r} at the path in its entry{system}",
            f"the path is {command}",
        )
        path_hint = f"correct `command` of server {server!r}"
    else:
        reason, detail = f"program {command!r} is not on the PATH", f"PATH is {path}"
        path_hint = "install it, or give its full path as `command`"
    hint = INSTALL_HINTS.get(program_name(name), path_hint)
    return _failed(server, FailureKind.NOT_FOUND, reason, hint=hint, detail=detail)
