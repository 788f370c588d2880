"""The files that a confined program sees: those of the system, its own, and what is granted.

The rule: of the system what every user may read, of everything else nothing but what the program
consists of.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/current-system"),
)
SETTINGS = "/etc"
_LINKED = ("resolv.conf", "hosts", "localtime", "nsswitch.conf", "machine-id")
"""Files of `/etc` that may be links to places outside."""
_VERSION_MANAGERS = {
    ".pyenv": "PYENV_ROOT",
    ".rbenv": "RBENV_ROOT",
    ".nodenv": "NODENV_ROOT",
    ".nvm": "NVM_DIR",
    ".volta": "VOLTA_HOME",
    ".asdf": "ASDF_DATA_DIR",
    ".sdkman": "SDKMAN_DIR",
    ".local/share/fnm": "FNM_DIR",
    ".local/share/mise": "MISE_DATA_DIR",
    ".local/share/uv/python": "UV_PYTHON_INSTALL_DIR",
}
"""Folders of the home folder with interpreters, and the variables that name them."""
_ENVIRONMENT = "pyvenv.cfg"
"""The file of a virtual environment that names the installation with the interpreter."""
_BESIDE_PROGRAMS = ("lib", "lib64", "libexec", "ssl", _ENVIRONMENT)
"""The names that a prefix such as `~/.venv` may have beside its `bin`."""
_PROGRAMS = ("bin", "sbin", ".bin")
_PYTHONS = ("python3", "python")
_PACKAGES = "node_modules"
_LONGEST_CHAIN = 24  # links, interpreters and environments that lead to the program itself
_LONGEST_SETTINGS = 65_536  # bytes of a `pyvenv.cfg`, which has some lines
_SCRIPT_HEAD = 256  # bytes that hold the line with the interpreter
_PUBLIC = stat.S_IROTH


class VisibleFiles(Struct, frozen=True):
    read: tuple[str, ...]
    write: tuple[str, ...]
    public_settings: tuple[str, ...] = ()
    """The paths of `/etc` that may be read, for a sandbox that can only leave out the others."""
    private_settings: tuple[str, ...] = ()
    """The paths of `/etc` to hide, for a sandbox that shows all of it."""


def program_files(program: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Itself, its interpreters and its libraries, as far as they are not the system's."""
    paths: dict[str, None] = {}
    for path in _chain(program, env):
        if not is_within(path, SYSTEM):
            paths |= dict.fromkeys(_around(Path(path)))
    return tuple(paths)


def interpreter_folders(home: str) -> Mapping[str, str]:
    """The folders in which version managers keep interpreters, by the variables that name them."""
    folders = {variable: f"{home}/{name}" for name, variable in _VERSION_MANAGERS.items()}
    return {name: folder for name, folder in folders.items() if os.path.isdir(folder)}  # noqa: PTH112


def settings_files() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of `/etc` that every user may read, as few as it takes, and the others.

    Files that only some may read are hidden from a program of root, and of the user of a service.
    """
    public, private = divided(SETTINGS)
    return tuple(public), tuple(private)


def linked_settings() -> tuple[str, ...]:
    """The files outside of `/etc` that stand in for some of it."""
    targets = (os.path.realpath(f"{SETTINGS}/{name}") for name in _LINKED)
    return tuple(path for path in targets if not is_within(path, (SETTINGS, *SYSTEM)))


def is_within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def absolute(path: str, *, base: str, home: str) -> str:
    """A granted path as the system has it; links in it stay."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.abspath(os.path.join(base, os.path.expanduser(path)))  # noqa: PTH100, PTH111, PTH118


def links_on_the_way(path: str) -> Iterator[tuple[str, str]]:
    """Each link that a path leads through, where it really is, with what it contains."""
    yield from _links(path, set())


def _links(path: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    here = "/"
    for name in path.split("/"):
        step = os.path.normpath(os.path.join(here, name))  # noqa: PTH118 - strings throughout
        if step in seen:
            return
        if os.path.islink(step):  # noqa: PTH114
            target = os.readlink(step)  # noqa: PTH115
            seen.add(step)
            yield step, target
            yield from _links(os.path.join(here, target), seen)  # noqa: PTH118
        here = os.path.realpath(step)


def _chain(program: str, env: Mapping[str, str]) -> Iterator[str]:
    """The path of a program, of the links to it, and of the interpreters that run it."""
    waiting = [os.path.abspath(program)]  # noqa: PTH100 - a string
    chain: dict[str, None] = {}
    while waiting and len(chain) < _LONGEST_CHAIN:
        path = waiting.pop(0)
        if path in chain:
            continue
        chain[path] = None
        yield path
        folder, name = os.path.split(path)
        real = os.path.realpath(folder)
        waiting += [os.path.join(real, name), *_base_interpreters(folder)]  # noqa: PTH118
        if os.path.islink(path):  # noqa: PTH114
            target = os.path.join(real, os.readlink(path))  # noqa: PTH115, PTH118
            waiting.append(os.path.normpath(target))
        elif interpreter := _interpreter(path, env):
            waiting.append(interpreter)


def _base_interpreters(programs: str) -> Iterator[str]:
    """Yield the interpreters that the virtual environment of a `bin` folder is made from.

    Its own interpreter may be a copy, and its programs may begin with a shell that starts it.
    """
    try:
        with Path(programs).parent.joinpath(_ENVIRONMENT).open("rb") as file:
            text = file.read(_LONGEST_SETTINGS).decode("utf-8", "surrogateescape")
    except OSError:
        return
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "home" and os.path.isabs(value.strip()):  # noqa: PTH117
            base = Path(value.strip())
            yield from (str(base / name) for name in _PYTHONS if (base / name).is_file())


def _interpreter(path: str, env: Mapping[str, str]) -> str | None:
    """Return the interpreter that the first line of a script names; None if there is none."""
    try:
        with Path(path).open("rb") as file:
            line = file.read(_SCRIPT_HEAD).partition(b"\n")[0]
    except OSError:
        return None
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if not words:
        return None
    if words[0].endswith("/env"):
        named = next(
            (word for word in words[1:] if not word.startswith("-") and "=" not in word), ""
        )
        return shutil.which(named, path=env.get("PATH", os.defpath)) if named else None
    return words[0]


def _around(path: Path) -> Iterator[str]:
    """A program, and what it cannot run without in its folder and beside it."""
    parts = path.parts
    if _PACKAGES in parts:  # packages load each other
        yield str(Path(*parts[: parts.index(_PACKAGES) + 1]))
    if path.parent.name not in _PROGRAMS:
        yield str(path)
        return
    yield str(path.parent)
    for name in _BESIDE_PROGRAMS:
        beside = path.parent.parent / name
        if beside.exists():
            yield str(beside)


def divided(folder: str) -> tuple[list[str], list[str]]:
    """Return the paths that every user may read, and the others; whole folders where possible.

    Links are neither: what they lead to is visible where it is, or not at all.
    """
    public: list[str] = []
    private: list[str] = []
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return [], [folder]
    for entry in entries:
        if entry.is_symlink():
            continue
        mode = entry.stat(follow_symlinks=False).st_mode
        if not mode & _PUBLIC:
            private.append(entry.path)
        elif stat.S_ISDIR(mode):
            inside, hidden = divided(entry.path)
            public += inside
            private += hidden
        else:
            public.append(entry.path)
    return (public, private) if private else ([folder], [])
