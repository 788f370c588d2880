"""Finds the program of a server and builds its environment.

A program is started from an argument list, never through a shell. It inherits only variables that
cannot contain a secret of this process.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.tools.model import ServerName

_POSIX = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ")
_WINDOWS = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT"),
    *("PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"),
)
_INHERITED = (*(_WINDOWS if sys.platform == "win32" else _POSIX), "USER", "USERNAME")


def child_environment(environ: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, str]:
    """The safe and needed variables of `environ`, plus those that the owner declared."""
    inherited = {
        name: value
        for name in _INHERITED
        # such a value is a shell function, which some shells would run
        if (value := environ.get(name)) is not None and not value.startswith("()")
    }
    return inherited | dict(declared)


def find_program(server: ServerName, stdio: StdioTransport, env: Mapping[str, str]) -> str:
    """The path of the program, looked up on the `PATH` of its own environment.

    Raises:
        UnavailableError: If it or its working directory does not exist, or is not executable.
    """
    cwd = _working_directory(server, stdio)
    path = env.get("PATH", os.defpath)
    command = os.path.expanduser(stdio.command)  # noqa: PTH111 - a bare name must stay one
    if os.path.dirname(command):  # noqa: PTH120 - `./server` is a path, `server` is a name
        command = str(Path(cwd or ".").absolute() / command)
    if found := shutil.which(command, path=path):
        return found
    if program := _unexecutable(command, path):
        raise _failed(
            server,
            FailureKind.PERMISSION,
            f"program {Path(program).name!r} may not be executed",
            hint="make it executable (`chmod +x`), or name its interpreter as `command`",
            detail=f"it is {program}",
        )
    raise _not_found(server, stdio.command, path)


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
    name = Path(command).name
    if os.path.dirname(command):  # noqa: PTH120 - see above
        reason, detail = (
            f"there is no program {name!r} at the path in its entry",
            f"the path is {command}",
        )
        path_hint = f"correct `command` of server {server!r}"
    else:
        reason, detail = f"program {command!r} is not on the PATH", f"PATH is {path}"
        path_hint = "install it, or give its full path as `command`"
    hint = INSTALL_HINTS.get(name.removesuffix(".exe"), path_hint)
    return _failed(server, FailureKind.NOT_FOUND, reason, hint=hint, detail=detail)
