"""The files of a project that would run, and digests of their content.

A program and scripts that lie in the project can be exchanged with it: by a pull, a branch, a
dependency. What lies elsewhere belongs to the owner, and counts by its path alone. What a program
loads by itself is not seen here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_LIMIT = 256 * 1024 * 1024
"""Bytes of one server's files; reading them takes about a second, and a start waits for it."""
_CHUNK = 1024 * 1024
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MOST_WORDS = 100  # of one argument that may be a command line; each costs a look at the disk

_CODE = re.compile(
    r"\.(pyw?|pyz|pyc|[cm]?jsx?|[cm]?tsx?|node|(ba|z|k|fi)?sh|rb|pl|pm|php|phar|lua|tcl|r|jl|groovy"
    r"|kts?|java|jar|class|war|csx?|fsx|dll|exe|so|wasm|go|rs|swift|dart|scala|cljs?|exs?|erl|awk"
    r"|ps1|psm1|bat|cmd|vbs|nix)",
    re.IGNORECASE,
)
_INTERPRETER = re.compile(
    r"(python|pypy|node|ruby|perl|php|lua|bash|dash|zsh|ksh|fish|sh|bun|deno|tclsh|Rscript|julia"
    r"|java|pwsh|powershell|osascript|wscript|cscript|tsx|ts-node)[\d.]*(\.exe)?"
)
_INLINE = re.compile(r"-[a-z]*[cem]|--eval|--print|--module")  # what follows is no file


def project_of(file: str) -> Path | None:
    """The folder of the project that a configuration stands in; None if that is no project.

    It is the root of the repository, or else the folder of the file, less one such as `.cursor`.
    A home folder is none, nor is one above it: what lies there is its owner's.
    """
    folder = Path(os.path.realpath(file)).parent
    if folder.name.startswith("."):
        folder = folder.parent
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - Path.home() may raise
    root = next((f for f in (folder, *folder.parents) if (f / ".git").exists()), folder)
    chosen = folder if home.is_relative_to(root) else root
    return None if home.is_relative_to(chosen) else chosen


def digests_of(
    project: Path | None, program: str, args: Mapping[str, str], cwd: str | None
) -> dict[str, dict[str, str]]:
    """The digests of a project's files that would run, by place in the entry and by path.

    Args:
        project: The folder that they must lie in.
        program: The path of what is started.
        args: Its arguments by their places.
        cwd: Where it is started; the working folder with None.
    """
    if project is None or not program:
        return {}
    reader = _Reader(project)
    found = {"command": reader.digests([Path(program)])}
    base = Path(os.path.abspath(cwd or "."))  # noqa: PTH100 - a link is kept, to be seen as one
    script = _script(program, [*args.values()], base)
    for place, text in args.items():
        paths = [path for path in _paths(text, base) if path == script or _is_code(path)]
        found[place] = reader.digests(paths)
    return {place: digests for place, digests in found.items() if digests}


class _Reader:
    def __init__(self, project: Path) -> None:
        self._project = project
        self._left = _LIMIT

    def digests(self, paths: Sequence[Path]) -> dict[str, str]:
        return {self._name(path): self._digest(path) for path in paths if self._is_inside(path)}

    def _is_inside(self, path: Path) -> bool:
        """Whether it lies in the project as it is named, as it is, or but for the last link."""
        ways = (os.path.normpath(path), os.path.realpath(path), self._place(path))
        return any(Path(way).is_relative_to(self._project) for way in ways)

    def _name(self, path: Path) -> str:
        return os.path.relpath(self._place(path), self._project)

    @staticmethod
    def _place(path: Path) -> Path:
        return Path(os.path.realpath(path.parent)) / path.name

    def _digest(self, path: Path) -> str:
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._project):  # a link to what its owner installed
            return f"is {real}"
        try:
            return self._digest_of(real)
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    def _digest_of(self, path: Path) -> str:
        # Not to wait for the writer of a pipe that takes the file's place.
        with open(os.open(path, _READ), "rb") as file:  # noqa: PTH123 - opened by its descriptor
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return "is no file"
            if found.st_size > self._left:
                return f"is too large: {found.st_size} bytes"
            digest = hashlib.sha256()
            while self._left > 0 and (chunk := file.read(_CHUNK)):
                self._left -= len(chunk)
                digest.update(chunk)
        return digest.hexdigest()


def is_bound(digest: str) -> bool:
    """Whether a digest is that of a file's content."""
    return " " not in digest


def _paths(text: str, base: Path) -> Iterator[Path]:
    """The files that an argument may name: by itself, behind `=`, before `:`, or in a command."""
    words = {text, text.partition("=")[2]}
    if any(c.isspace() for c in text):
        words.update(_words(text))
    words |= {word.rpartition(":")[0] for word in words}
    for word in sorted(words):
        path = base / os.path.expanduser(word)  # noqa: PTH111 - as a shell would
        if word and _is_file(path):
            yield path


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)[:_MOST_WORDS]
    except ValueError:
        return text.split()[:_MOST_WORDS]


def _script(program: str, args: Sequence[str], base: Path) -> Path | None:
    """The first file that an interpreter is given: what it runs, whatever it is called."""
    if not _INTERPRETER.fullmatch(Path(program).name):
        return None
    for text in args:
        if _INLINE.fullmatch(text):
            return None
        if not text.startswith("-") and (path := next(_paths(text, base), None)):
            return path
    return None


def _is_code(path: Path) -> bool:
    try:
        if _CODE.fullmatch(path.suffix) or (os.name == "posix" and os.access(path, os.X_OK)):
            return True
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
