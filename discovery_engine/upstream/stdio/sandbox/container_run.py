"""A command that is `docker run`: its options are checked, and those that confine are added."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from discovery_engine.config.serve_settings import SandboxSettings
from discovery_engine.upstream.stdio.sandbox.launch import SandboxError
from discovery_engine.upstream.stdio.sandbox.visible_files import is_within

_FLAGS = frozenset(
    (
        *("detach", "disable-content-trust", "help", "init", "interactive", "no-healthcheck"),
        *("oom-kill-disable", "privileged", "publish-all", "quiet", "read-only", "rm"),
        *("sig-proxy", "tty", "use-api-socket", "env-host", "rootfs"),
    )
)
"""Options of `docker run` that take no value."""
_LETTERS = {
    "d": "detach",
    "i": "interactive",
    "t": "tty",
    "P": "publish-all",
    "q": "quiet",
    "v": "volume",
    "m": "memory",
    "p": "publish",
    "e": "env",
    "u": "user",
    "w": "workdir",
}
_OF_THE_CLIENT = (
    *("config", "context", "host", "log-level", "tlscacert", "tlscert", "tlskey"),
    *("H", "c", "l"),
)
"""Options before `run` that take a value."""
_UNCONFINED = (
    *("privileged", "cap-add", "device", "device-cgroup-rule", "volumes-from", "gpus"),
    *("use-api-socket", "env-host", "rootfs"),
)
_SPACES = ("pid", "ipc", "uts", "userns", "cgroupns")
_NETWORK = ("network", "net")
_LIMITS = ("memory", "pids-limit")
_UNLIMITED = re.compile(r"-\d+|0*[a-zA-Z]?")
_PUBLISHED = ("publish", "publish-all")
_HARMLESS = tuple(f"no-new-privileges{end}" for end in ("", ":true", "=true"))
_OF_FILES = ("volume", "mount", "env-file", "label-file", "cidfile")
_MOUNTS = ("bind", "volume", "tmpfs", "image")
_NUMBER = re.compile(r"-\d+")


class RunOption(NamedTuple):
    name: str
    value: str


class ContainerRun(NamedTuple):
    """`docker run` with its options."""

    before: int
    """The number of arguments before its options."""
    options: tuple[RunOption, ...]
    end: int
    """The number of arguments before its image."""


def read_run(args: Sequence[str]) -> ContainerRun | None:
    """The options of `run`; None if it is another command."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        name, has_value, _ = args[at].lstrip("-").partition("=")
        at += 2 if not has_value and name in _OF_THE_CLIENT else 1
    if at < len(args) and args[at] == "container":
        at += 1
    if at >= len(args) or args[at] != "run":
        return None
    options, end = _read_options(args, at + 1)
    return ContainerRun(at + 1, tuple(options), end)


def confined_run(
    server: str, args: Sequence[str], sandbox: SandboxSettings, grants: MountGrants
) -> list[str]:
    """The arguments with all options that confine.

    Raises:
        SandboxError: If it is not `run`, or has an option that leads out of the container.
    """
    run = read_run(args)
    if run is None or run.end >= len(args):
        raise SandboxError(
            server,
            "only a command that is `docker run` with an image can be confined",
            hint="write `sandbox: none` if it is to do all that you may",
        )
    problems = list(_problems(run.options, sandbox, grants))
    if problems:
        raise SandboxError(
            server,
            "its options lead out of the container",
            hint="take them away, or grant it: `network: true`, `read` or `write` with the folder;"
            " or write `sandbox: none`",
            detail=" ".join(problems),
        )
    return [*args[: run.before], *_added(run.options, sandbox, grants), *args[run.before :]]


class MountGrants(NamedTuple):
    """Granted paths, with links resolved."""

    read: tuple[str, ...]
    write: tuple[str, ...]


def _read_options(args: Sequence[str], at: int) -> tuple[list[RunOption], int]:
    """The options from there on, and where the image is."""
    options = []
    while at < len(args) and args[at].startswith("-") and args[at] != "-":
        word = args[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            if not has_value and name not in _FLAGS and _is_value(args, at):
                value, at = args[at], at + 1
            options.append(RunOption(name, value))
            continue
        for place, letter in enumerate(word[1:], 2):
            name = _LETTERS.get(letter, letter)
            if name in _FLAGS:
                options.append(RunOption(name, ""))
                continue
            value = word[place:].removeprefix("=")
            if not value and _is_value(args, at):
                value, at = args[at], at + 1
            options.append(RunOption(name, value))
            break
    return options, at


def _is_value(args: Sequence[str], at: int) -> bool:
    """Return whether an argument is the value of the option before it.

    One that looks like an option is an option: the one before it may be an unknown flag.
    """
    return at < len(args) and (not args[at].startswith("-") or bool(_NUMBER.fullmatch(args[at])))


def _problems(
    options: Sequence[RunOption], sandbox: SandboxSettings, grants: MountGrants
) -> Iterator[str]:
    for option in options:
        name, value = option
        is_network = name in (*_NETWORK, *_PUBLISHED) and value != "none"
        if (
            (name in _UNCONFINED and value != "false")
            or (name == "security-opt" and value not in _HARMLESS)
            or (is_network and not sandbox.network)
            or (name in _SPACES and _is_shared(value))
            or (name in _NETWORK and value.startswith("container:"))
            or (name in _LIMITS and _UNLIMITED.fullmatch(value))
            or (name in _OF_FILES and not _is_granted(_access(option), grants))
        ):
            yield f"--{name}={value}" if value else f"--{name}"


def _is_shared(space: str) -> bool:
    """Return whether a container has the namespace of this machine, or of another container."""
    return space == "host" or space.startswith("container:")


class _Access(NamedTuple):
    """The access that an option gives to a file of this machine."""

    path: str | None
    """None if it has nothing to do with one, or it cannot be told with which."""
    is_read_only: bool = False
    is_clear: bool = True


def _is_granted(access: _Access, grants: MountGrants) -> bool:
    if access.path is None:
        return access.is_clear
    real = os.path.realpath(os.path.expanduser(access.path))  # noqa: PTH111 - a string
    return is_within(real, grants.write) or (access.is_read_only and is_within(real, grants.read))


def _access(option: RunOption) -> _Access:
    match option:
        case RunOption("volume", value):
            return _access_of_volume(value)
        case RunOption("mount", value):
            return _access_of_mount(value)
    return _Access(option.value, is_read_only=option.name != "cidfile")


def _access_of_volume(value: str) -> _Access:
    source, _, rest = value.partition(":")
    is_path = source[:1] in ("/", "~", ".") or "\\" in value or len(source) == 1  # of Windows
    if not rest or not is_path:
        return _Access(None)
    return _Access(source, "ro" in rest.partition(":")[2].split(","))


def _access_of_mount(value: str) -> _Access:
    try:
        [fields] = csv.reader([value])
    except csv.Error:
        return _Access(None, is_clear=False)
    pairs = {key.strip().lower(): text for key, _, text in (f.partition("=") for f in fields)}
    kind = pairs.get("type", "volume").lower()
    if kind != "bind":  # options of a volume can make it any folder
        return _Access(None, is_clear=kind in _MOUNTS and "volume-opt" not in pairs)
    source = pairs.get("source") or pairs.get("src")
    is_read_only = any(pairs.get(key, "false") in ("", "true", "1") for key in ("readonly", "ro"))
    return _Access(source, is_read_only, is_clear=False)


def _added(
    options: Sequence[RunOption], sandbox: SandboxSettings, grants: MountGrants
) -> Iterator[str]:
    names = {option.name for option in options}
    if not sandbox.network and not names.intersection(_NETWORK):
        yield "--network=none"
    if "memory" not in names:
        yield f"--memory={sandbox.memory_mib}m"
    if "pids-limit" not in names:
        yield f"--pids-limit={sandbox.processes}"
    yield from ("--security-opt=no-new-privileges", "--cap-drop=ALL")
    mounted = {_access(option).path for option in options if option.name in _OF_FILES}
    for paths, mode in ((grants.read, ":ro"), (grants.write, "")):
        for path in paths:
            if path not in mounted:
                yield f"--volume={path}:{path}{mode}"
