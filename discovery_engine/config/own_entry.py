"""Recognizes entries that start or reach this program: a gateway must not serve itself.

    {"command": "uvx", "args": ["--from", "mcp-discovery-engine", "discovery", "serve"]}
    {"url": "http://127.0.0.1:8000/mcp"}

A program is recognized by its name, whatever launches it. A URL is recognized by its port: while a
gateway serves a port, it holds a lock on a file for it in the data folder.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from discovery_engine._util.file_lock import lock_file
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.config.syntax import command_words, is_loopback, program_name

OWN_ENTRY = "it is this program itself, and a gateway does not serve itself"

_PACKAGE = "mcp-discovery-engine"
_PROGRAMS = ("discovery", _PACKAGE)
_MODULES = ("discovery_cli", "discovery_cli.main")
_LAUNCHERS = lazy_pattern(
    r"env|sudo|doas|nohup|nice|exec|time|timeout|stdbuf|cmd|powershell|pwsh|uvx?|uvw|pipx|poetry|pdm"
    r"|hatch|pixi|rye|mise|nix|conda|mamba|micromamba|docker|podman|nerdctl|py|(python|pypy)[\d.]*w?"
)
_PACKAGE_RUNNERS = lazy_pattern(r"uvx|pipx run|uv (tool run|x)")
"""The commands that are followed by a package, unless `--from` or `--spec` names one."""
_CONTAINERS = ("docker", "podman", "nerdctl")
_IMAGE = lazy_pattern(r"[\w.-]+(:\d+)?(/[\w.-]+)*([:@][\w.:+-]+)?")
_SHELLS = ("sh", "bash", "zsh", "dash", "ksh", "fish", "ash")
_JOINED = lazy_pattern(r"&&|\|\||[;|\n]")
_VERSION = lazy_pattern(r"[\[=<>~!@: ].*", re.DOTALL)
_PRIVATE = 0o600


def is_own_entry(transport: StdioTransport | RemoteTransport | None, data: str | Path) -> bool:
    """Return whether an entry starts this program, or reaches a gateway of the data folder."""
    if isinstance(transport, StdioTransport) and _starts_gateway(
        [transport.command, *transport.args]
    ):
        return True
    return any(map(_is_served, port_files(transport, data)))


def port_files(transport: StdioTransport | RemoteTransport | None, data: str | Path) -> list[Path]:
    """Return the files in which gateways lock the local ports that an entry reaches."""
    texts = transport.args if isinstance(transport, StdioTransport) else ()
    texts = (transport.url,) if isinstance(transport, RemoteTransport) else texts
    ports = filter(None, map(_local_port, texts))
    return [_port_file(data, port) for port in ports]


def _is_served(path: Path) -> bool:
    """Return whether a running gateway has locked the file of a port."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        lock_file(descriptor)
    except BlockingIOError:
        return True
    except OSError:  # locks do not work here
        return False
    else:
        return False
    finally:
        os.close(descriptor)


@contextmanager
def served_port(data: str | Path, port: int, *, is_shared: bool = False) -> Iterator[None]:
    """Lock the file of a local port in the block, so that entries for it are recognized.

    With `is_shared` the file stays for the next gateway that serves the port. Errors of the file
    system are ignored: the port is not recognized then.
    """
    path, descriptor = _port_file(data, port), None
    with suppress(OSError):  # in a folder without locks it is not recognized
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, _PRIVATE)
    try:
        is_locked = descriptor is not None and _lock(descriptor)
        yield
        if is_locked and not is_shared:
            path.unlink(missing_ok=True)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock the file of a port and write new content; return whether this process has the lock."""
    try:
        lock_file(descriptor)
    except OSError:  # another gateway serves the port
        return False
    os.truncate(descriptor, 0)
    os.write(descriptor, os.urandom(8).hex().encode())  # new content: readers see a change
    return True


def _port_file(data: str | Path, port: int) -> Path:
    return Path(data) / "ports" / str(port)


def _local_port(text: str) -> int | None:
    """Return the port of a URL of this machine; None for any other text."""
    if not text.startswith(("http://", "https://")):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except ValueError:
        return None
    host = parts.hostname or ""
    return port if is_loopback(host) or host == "0.0.0.0" else None  # noqa: S104 - compared only


def _starts_gateway(words: Sequence[str]) -> bool:
    first, *rest = command_words(words[0], words[1:])
    program = _stem(first)
    if program in _PROGRAMS:
        return "serve" in rest
    if program in _SHELLS:
        return any(map(_starts_gateway, _commands(rest)))
    if "--" in rest and _starts_gateway(rest[rest.index("--") + 1 :] or [""]):
        return True
    if not _LAUNCHERS.fullmatch(program):
        return False
    if program in _CONTAINERS and any(map(_is_package, filter(_IMAGE.fullmatch, rest))):
        return True  # an image of this program serves by itself
    at = next((at for at, word in enumerate(rest) if _is_own(word)), len(rest))
    return "serve" in rest[at:] and not _runs_other_package(program, rest, at)


def _commands(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the commands in the arguments of a shell, as words."""
    for text in words:
        for command in _JOINED.split(text):
            with suppress(ValueError):
                if split := shlex.split(command):
                    yield split[1:] if split[0] == "exec" and len(split) > 1 else split


def _is_own(word: str) -> bool:
    return word in _MODULES or _stem(word) in _PROGRAMS


def _is_package(word: str) -> bool:
    """Return whether a requirement, an image or the URL of a repository is this package."""
    name = _VERSION.sub("", word.rstrip("/").rsplit("/", 1)[-1]).replace("_", "-")
    return name.removesuffix(".git") == _PACKAGE or name.startswith(f"{_PACKAGE}-")


def _runs_other_package(program: str, words: Sequence[str], at: int) -> bool:
    """Return whether a package of the index is run that only shares this program's name."""
    if not _PACKAGE_RUNNERS.match(" ".join((program, *words[:2]))):
        return False
    options = [word.partition("=") for word in words]
    specs = [
        value or next(iter(words[index + 1 :]), "")
        for index, (option, _, value) in enumerate(options)
        if option in ("--from", "--spec")
    ]
    named = specs[0] if specs else words[at]
    is_place = "/" in named or "\\" in named or named.startswith(".")
    return not (_is_package(named) or (specs and is_place))


def _stem(word: str) -> str:
    """Return the name of a program or an image, without folder, extension and tag."""
    return _VERSION.sub("", program_name(word.strip("\"'")))
