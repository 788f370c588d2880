"""Finds the program of a server and builds its environment; names a variable that it lacked.

A program is started from an argument list, never through a shell. It inherits variables without
secrets of this process, and those without which it may not reach the network: certificates,
proxies, and the settings of package runners. What is secret in these is redacted wherever it is
shown.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

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
from discovery_engine.secrets.secret_names import NameKind
from discovery_engine.tools.model import ServerName

_POSIX = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ")
_WINDOWS = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT"),
    *("PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"),
)
_HARMLESS = frozenset((*(_WINDOWS if sys.platform == "win32" else _POSIX), "USER", "USERNAME"))
_OF_NETWORK = re.compile(
    r"(?i:all|https?|no)_(?i:proxy)|(?i:npm_config)_.+|(?:PIP|XDG)_.+|UV_(?!PUBLISH_).+"
    r"|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|SSL_CERT_(?:DIR|FILE)"
)

# Signs in stderr that a program was not given a variable, with a pattern of its name. They are
# compiled when a start has failed.
_CERTIFICATES = r"certificate|self.signed|x509|PKIX|UNABLE_TO_\w+_CERT|\b(?:SSL|TLS)\b"
_CONNECTIONS = (
    r"proxy|ECONN|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|\bdns\b|getaddrinfo|name resolution|name or service"
    r"|unreachable|connection (?:refused|reset|timed)|sending request|registry|index|\bE?40[134]\b"
)
_WITHHELD = (
    (_CERTIFICATES, r".*(?:CERT|_CA_|CAINFO|CAFILE|SSL|TLS).*"),
    (_CONNECTIONS, r".*(?:PROXY|REGISTRY|INDEX|MIRROR).*"),
    (r"docker|podman", r"DOCKER_.*|CONTAINER_HOST"),
    (r"publickey|host key|\bssh\b", r"SSH_AUTH_SOCK|GIT_SSH.*"),
)
_MISSING = (
    r"required|requires|missing|not set|unset|must be|must set|undefined|please (?:set|provide)"
    r"|not (?:provided|defined|configured|found)|environment variable|env var|^KeyError: "
)
_VARIABLE = (
    r"(?<=KeyError: ')[A-Z]\w{1,60}"
    r"|\b(?!(?:CERT|CERTIFICATE|DEPTH|E|ERR|ERROR|MODULE|SELF|UNABLE)_)[A-Z][A-Z\d]*(?:_[A-Z\d]+){1,9}\b"
)
_MOST_NAMED = 3
_REMOTE = ("ssh", "wsl")  # their arguments are read by a shell of another machine


def child_environment(
    environ: Mapping[str, str], declared: Mapping[str, str], passed: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables that a program inherits of `environ`, and those of its entry.

    `passed` are names, or patterns such as `AWS_*`, of variables that its owner passes besides.
    """
    inherited = {
        name: value
        for name, value in environ.items()
        # such a value is a shell function, which some shells would run
        if _is_inherited(name, passed) and not value.startswith("()")
    }
    return inherited | dict(declared)


def is_harmless(name: str) -> bool:
    """Return whether a variable is inherited as neither a secret nor a setting of the network."""
    return name in _HARMLESS


def _is_inherited(name: str, passed: Sequence[str]) -> bool:
    return (
        name in _HARMLESS
        or _OF_NETWORK.fullmatch(name) is not None
        or any(fnmatchcase(name, pattern) for pattern in passed)
    )


def environment_hint(
    server: ServerName, stderr: str, environ: Mapping[str, str], env: Mapping[str, str]
) -> str:
    """How to give a program the variable that it lacked, to judge by its stderr; may be empty.

    `env` is what it was given, of `environ` and besides.
    """
    if missing := _first(_missing_in(stderr, env)):
        secrets = (f"{server}/{name}" for name in missing if _is_stored(name, environ))
        assignments = ", ".join(f"{name}: {_reference(server, name, environ)}" for name in missing)
        ways = [
            *(f"`discovery secrets set {secret}`" for secret in secrets),
            f"`env: {{{assignments}}}`",
        ]
        needed = ", ".join(missing)
        return f"it needs {needed}: {' and '.join(ways)} in the entry of server {server!r}"
    withheld = (
        name
        for sign, variable in _WITHHELD
        if re.search(sign, stderr, re.IGNORECASE)
        for name in environ
        if name not in env and re.fullmatch(variable, name, re.IGNORECASE)
    )
    if named := ", ".join(f"`{name}`" for name in _first(withheld)):
        return f"it is not given {named}, which is set here: `server.passEnv` passes it to programs"
    return ""


def _missing_in(stderr: str, env: Mapping[str, str]) -> Iterator[str]:
    for line in stderr.splitlines():
        if re.search(_MISSING, line, re.IGNORECASE):
            yield from (name for name in re.findall(_VARIABLE, line) if not env.get(name))


def _first(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MOST_NAMED]


def _is_stored(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether the value of a variable should be a stored secret."""
    return name not in environ and NameKind.of(name) is NameKind.SECRET


def _reference(server: ServerName, name: str, environ: Mapping[str, str]) -> str:
    if name in environ:
        return f"${{{name}}}"
    return f"${{secret:{server}/{name}}}" if _is_stored(name, environ) else "…"


def on_this_machine(
    server: ServerName, stdio: StdioTransport, env: Mapping[str, str]
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
    executable = _which(command, cwd, path)
    if executable is None:
        command, *args = command_words(command, args)
        command = _usual_name(command)
        if [command, *args] != words:
            executable = _which(command, cwd, path)
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


def _which(command: str, cwd: str | None, path: str) -> str | None:
    return shutil.which(_located(command, cwd), path=path)


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
