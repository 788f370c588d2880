"""Puts the program of a server into its sandbox: the command, its variables, and its rules."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from msgspec import Struct

from discovery_engine.config.serve_settings import SandboxSettings
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.upstream.stdio.environment import is_harmless
from discovery_engine.upstream.stdio.sandbox.choice import Choice, choose
from discovery_engine.upstream.stdio.sandbox.container_run import MountGrants, confined_run
from discovery_engine.upstream.stdio.sandbox.launch import Launch, SandboxError
from discovery_engine.upstream.stdio.sandbox.means import find_means
from discovery_engine.upstream.stdio.sandbox.visible_files import (
    SETTINGS,
    SYSTEM,
    VisibleFiles,
    absolute,
    interpreter_folders,
    is_within,
    linked_settings,
    links_on_the_way,
    program_files,
    settings_files,
)

_SEEN_BY_LANDLOCK = ("/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_OFFLINE = {"npm_config_offline": "true", "UV_OFFLINE": "1", "PIP_NO_INDEX": "1"}
"""Without a network, package runners fail at once instead of after minutes of retries."""
_CERTIFICATES = (
    *("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    *("NPM_CONFIG_CAFILE", "PIP_CERT", "npm_config_cafile"),
)
_PRIVATE = 0o700
_LONGEST_NAME = 64  # characters
PRIVATE_FOLDERS = "sandboxes"
"""The folder in the data folder that holds the private folders of servers."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class Sandboxes(Struct, frozen=True):
    folder: Path | None
    """In which each server has a private home folder; None if there is no such place."""
    environ: Mapping[str, str]

    def choice_of(self, server: ServerSettings, command: str) -> Choice:
        """Return the means that would confine the program of a server.

        Raises:
            SandboxError: If nothing that its entry allows can confine it.
        """
        return choose(server.name, server.sandbox, command, find_means(self.environ))

    def launch(
        self,
        server: ServerSettings,
        stdio: StdioTransport,
        command: Sequence[str],
        env: Mapping[str, str],
    ) -> Launch:
        """The launch of a program in the sandbox of its server. It reads and makes folders.

        Args:
            server: Its entry.
            stdio: The same with its references resolved.
            command: The path of the program, and its arguments.
            env: Its variables.

        Raises:
            SandboxError: If it cannot be confined as its entry demands.
        """
        choice = self.choice_of(server, stdio.command)
        if choice.kind == "none":
            return Launch(command, env, stdio.cwd, sandbox=str(choice))
        read = self._granted(server, server.sandbox.read)
        write = self._granted(server, server.sandbox.write)
        if choice.kind == "docker":
            grants = MountGrants(_real(read), _real(write))
            arguments = confined_run(server.name, command[1:], server.sandbox, grants)
            return Launch([command[0], *arguments], env, stdio.cwd, sandbox=str(choice))
        return self._confined(server, stdio, Launch(command, env, stdio.cwd), choice, read, write)

    def _confined(
        self,
        server: ServerSettings,
        stdio: StdioTransport,
        launch: Launch,
        choice: Choice,
        read: Sequence[str],
        write: Sequence[str],
    ) -> Launch:
        sandbox = server.sandbox
        home, temporary = self._private_folders(server)
        cwd = self._working_folder(server, stdio.cwd, (*read, *write)) or home
        interpreters = interpreter_folders(self._home)
        own = program_files(launch.command[0], launch.env)
        inherited = {name: v for name, v in launch.env.items() if name not in stdio.env}
        certificates = self._certificates(inherited)
        files = VisibleFiles(
            (*linked_settings(), *interpreters.values(), *own, *certificates, *read, cwd),
            (*write, home, temporary),
            *settings_files(),
        )
        offline = {} if sandbox.network else _OFFLINE
        folders = {"HOME": home, "TMPDIR": temporary}
        command = launch.command
        if choice.kind == "bubblewrap":
            wrapped = bubblewrap_arguments(files, has_network=sandbox.network, cwd=cwd)
            command = [choice.program, *wrapped, *command]
        return Launch(
            command,
            {**offline, **interpreters, **self._shown(inherited), **folders, **stdio.env},
            cwd,
            tuple(_words(choice, sandbox, files)),
            str(choice),
            temporary,
        )

    def _certificates(self, inherited: Mapping[str, str]) -> list[str]:
        """The files and folders that the user's own variables name; not those of the entry."""
        paths = [p for name in _CERTIFICATES for p in inherited.get(name, "").split(os.pathsep)]
        files = {path for p in paths if os.path.isabs(p) for path in (p, os.path.realpath(p))}  # noqa: PTH117
        hidden = (os.path.realpath(self._home), *filter(None, [self.folder and self.folder.parent]))
        return [
            p
            for p in files
            if os.path.exists(p) and not any(is_within(str(folder), (p,)) for folder in hidden)  # noqa: PTH110
        ]

    def _shown(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The variables that mean something in the sandbox: none that names a hidden folder."""
        home = (self._home, os.path.realpath(self._home))
        return {
            name: value
            for name, value in inherited.items()
            if is_harmless(name)
            or name in _CERTIFICATES
            or not (name.startswith("XDG_") or is_within(value, home))
        }

    def _working_folder(
        self, server: ServerSettings, cwd: str | None, granted: Sequence[str]
    ) -> str | None:
        """The absolute `cwd` of an entry, which its program may read.

        Raises:
            SandboxError: If that would show the home folder.
        """
        if cwd is None:
            return None
        folder = os.path.abspath(cwd)  # noqa: PTH100 - a string
        real = os.path.realpath(folder)
        shows_home = is_within(os.path.realpath(self._home), (real,))
        if (shows_home and not is_within(real, _real(granted))) or self._shows_data((real,)):
            raise SandboxError(
                server.name,
                "its `cwd` is the home folder, or another one that its sandbox hides",
                hint="name another folder as `cwd`",
            )
        return folder

    def _shows_data(self, folders: Sequence[str]) -> bool:
        """Return whether the data folder, with the secrets of all servers, is in one of these."""
        return self.folder is not None and is_within(os.path.realpath(self.folder.parent), folders)

    @property
    def _home(self) -> str:
        return self.environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111

    def _granted(self, server: ServerSettings, paths: Sequence[str]) -> tuple[str, ...]:
        """Granted paths as they are written and with links resolved.

        Raises:
            SandboxError: If one does not exist.
        """
        base = os.path.dirname(server.origin.file) or os.getcwd()  # noqa: PTH109, PTH120 - strings
        grants: dict[str, None] = {}
        for path in paths:
            plain = absolute(path, base=base, home=self._home)
            if not os.path.exists(plain):  # noqa: PTH110
                raise SandboxError(
                    server.name,
                    "a path that its sandbox grants does not exist",
                    hint=f"create it, or correct `sandbox` of server {server.name!r}",
                    detail=f"it is {plain}",
                )
            real = os.path.realpath(plain)
            if self._shows_data((real,)):
                raise SandboxError(
                    server.name,
                    "its sandbox grants a folder that holds the data folder, with its secrets",
                    hint="grant the folders in it that the server needs",
                    detail=f"it is {plain}",
                )
            grants |= dict.fromkeys((plain, real))
        return tuple(grants)

    def _private_folders(self, server: ServerSettings) -> tuple[str, str]:
        """Its home folder, and a new folder for temporary files.

        Raises:
            SandboxError: If they cannot be made.
        """
        try:
            if self.folder is None:
                raise FileNotFoundError(errno.ENOENT, "there is no data folder")
            if self._shows_data((*SYSTEM, SETTINGS)):
                raise PermissionError(errno.EPERM, "every sandbox shows where the data folder is")
            folder = private_folder(self.folder, server.name, server.origin.file)
            for path in (self.folder, folder, folder / "home", folder / "tmp"):
                path.mkdir(_PRIVATE, parents=True, exist_ok=True)
            temporary = mkdtemp(dir=folder / "tmp")
        except OSError as error:
            raise SandboxError(
                server.name,
                "its private home folder cannot be made",
                hint="name a data folder that can be written, with $DISCOVERY_DATA_DIR",
                detail=str(error),
            ) from error
        return str(folder / "home"), temporary


def private_folder(sandboxes: Path, server: str, file: str) -> Path:
    """Return the folder for what a server writes without other grants; it may not exist yet.

    `file` is the one that holds its entry: another file may have a server of the same name.
    """
    digest = sha256(f"{file}\0{server}".encode()).hexdigest()[:12]
    return sandboxes / f"{_UNSAFE.sub('_', server)[:_LONGEST_NAME]}-{digest}"


def _words(choice: Choice, sandbox: SandboxSettings, files: VisibleFiles) -> Iterator[str]:
    is_landlock = choice.kind == "landlock"
    yield f"kind={choice.kind}"
    yield f"network={int(sandbox.network)}"
    # Landlock does not know of sockets in the file system: all or none.
    yield f"sockets={int(not is_landlock or any(map(_is_socket, files.write)))}"
    yield f"memory={sandbox.memory_mib * 1024 * 1024}"
    yield f"processes={sandbox.processes}"
    if is_landlock:
        seen = (*SYSTEM, *files.public_settings, *_SEEN_BY_LANDLOCK, *files.read)
        yield from (f"read={path}" for path in seen)
        yield from (f"write={path}" for path in (*_DEVICES, *files.write))
    else:
        yield f"filter={FILTER_AT}"
        yield f"arguments={ARGUMENTS_AT}"


def _real(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(os.path.realpath, paths)))


def _is_socket(path: str) -> bool:
    return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116


# The arguments of bubblewrap: a file system with nothing in it but what is granted.

FILTER_AT, ARGUMENTS_AT = 3, 4  # the first descriptors that a program does not have
_ALWAYS_THERE = (*SYSTEM, SETTINGS, "/proc", "/dev")


def bubblewrap_arguments(files: VisibleFiles, *, has_network: bool, cwd: str | None) -> list[str]:
    """Everything before the command."""
    # No `--new-session`: the reaper has made one, and a signal to its group reaches the program.
    # No `--die-with-parent`: SIGTERM ends bubblewrap at once, and the program would be killed while
    # it still handles the same signal. What is left is ended by the reaper.
    arguments = ["--unshare-all", "--cap-drop", "ALL"]
    arguments += ["--share-net"] if has_network else []
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108 - its own
    if os.geteuid() == 0:  # it could change switches of the kernel that run programs
        arguments += ["--remount-ro", "/proc"]
    for path in SYSTEM:
        arguments += _system_folder(path)
    arguments += ["--ro-bind", SETTINGS, SETTINGS]
    for path in files.private_settings:
        is_folder = os.path.isdir(path)  # noqa: PTH112 - a string
        arguments += ["--tmpfs", path] if is_folder else ["--ro-bind", "/dev/null", path]
    for link, target in _missing_links(files).items():
        arguments += ["--symlink", target, link]
    for path in _outermost_first(files.read):
        arguments += ["--ro-bind-try", path, path]
    for path in _outermost_first(files.write):
        arguments += ["--bind-try", path, path]
    arguments += ["--seccomp", str(FILTER_AT), "--args", str(ARGUMENTS_AT)]
    return [*arguments, "--chdir", cwd, "--"] if cwd else [*arguments, "--"]


def _system_folder(path: str) -> Iterator[str]:
    if os.path.islink(path):  # noqa: PTH114 - a string
        yield from ("--symlink", os.readlink(path), path)  # noqa: PTH115
    elif os.path.isdir(path):  # noqa: PTH112
        yield from ("--ro-bind", path, path)


def _missing_links(files: VisibleFiles) -> dict[str, str]:
    """The links that paths lead through, but those in folders that are there anyway.

    They stay links: what is relative to them (`../lib`) means the folder that they lead to.
    """
    paths = (*files.read, *files.write)
    there = (*_ALWAYS_THERE, *map(os.path.realpath, paths))
    links = (link for path in paths for link in links_on_the_way(path))
    return {link: target for link, target in links if not is_within(link, there)}


def _outermost_first(paths: tuple[str, ...]) -> list[str]:
    """A folder that is mounted later would hide what is mounted in it."""
    return sorted(set(map(os.path.realpath, paths)), key=lambda path: (path.count("/"), path))
