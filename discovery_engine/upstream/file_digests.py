"""The files of a project that a server would run, and digests of their content.

A pull, a branch or a dependency can replace a program or a script in the project, so their content
counts. Files outside the project belong to the owner and count by path. Files that a program loads
by itself are not covered.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from discovery_engine._util.lazy_pattern import lazy_pattern

_MAX_DIGESTED_BYTES = 256 * 1024 * 1024
"""Bytes of the files of one server; reading them takes about a second of its start."""
_CHUNK = 1024 * 1024
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MOST_WORDS = 100  # of one argument that may be a command line; each costs some file lookups
_MOST_FOLDERS = 4  # named by arguments, in which relative paths are tried

_CODE = lazy_pattern(
    r"\.(pyw?|pyz|pyc|[cm]?jsx?|[cm]?tsx?|node|(ba|z|k|fi)?sh|rb|pl|pm|php|phar|lua|tcl|r|jl|groovy"
    r"|kts?|java|jar|class|war|csx?|fsx|dll|exe|so|wasm|go|rs|swift|dart|scala|cljs?|exs?|erl|awk"
    r"|ps1|psm1|bat|cmd|vbs|nix)",
    re.IGNORECASE,
)
_INTERPRETER = lazy_pattern(
    r"(python|pypy|node|ruby|perl|php|lua|bash|dash|zsh|ksh|fish|sh|bun|deno|tclsh|Rscript|julia"
    r"|java|pwsh|powershell|osascript|wscript|cscript|tsx|ts-node)[\d.]*(\.exe)?"
)
_INLINE = lazy_pattern(r"-[a-z]*[ce]|--eval|--print")  # what follows is no file
_MODULE = lazy_pattern(r"-[a-zA-Z]*m|--module")
_ENDS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".py", ".sh")  # that may be left out
_ENTRIES = ("__main__.py", "package.json", *(f"index{end}" for end in _ENDS))
_SEPARATORS = lazy_pattern(r"[\s;&|()<>`'\"=]+")


def project_of(file: str) -> Path | None:
    """The project folder of a configuration file; None if there is none.

    It is the root of the repository, or else the folder of the file (its parent for folders such as
    `.cursor`). The home folder and those above it are no project: they belong to the owner.
    """
    folder = Path(os.path.realpath(file)).parent
    if folder.name.startswith("."):
        folder = folder.parent
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - Path.home() may raise
    root = next((f for f in (folder, *folder.parents) if (f / ".git").exists()), folder)
    chosen = folder if home.is_relative_to(root) else root
    return None if home.is_relative_to(chosen) else chosen


def digests_of(
    project: Path | None, program: str, texts: Mapping[str, str], cwd: str | None
) -> dict[str, dict[str, str]]:
    """Digests of the project files that would run, by place in the entry and by path.

    Args:
        project: Only files in this folder are included.
        program: The path of the program; empty if it is not installed.
        texts: The command, its arguments and variables, by place.
        cwd: Its working directory; that of this process if None.
    """
    if project is None:
        return {}
    reader = _DigestReader(project)
    by_place = {"command": reader.digests([Path(program)] if program else [])}
    base = Path(os.path.abspath(_path(cwd or ".", Path())))  # noqa: PTH100 - keeps links, to recognize them
    for named_by, folder in [("", base), *_folders(texts, base)]:
        for place, paths in _running(texts, folder):
            # A file found in a folder belongs to the argument that names the folder.
            by_place.setdefault(named_by or place, {}).update(reader.digests(paths))
    return {place: digests for place, digests in by_place.items() if digests}


class _DigestReader:
    def __init__(self, project: Path) -> None:
        self._project = project
        self._left = _MAX_DIGESTED_BYTES
        self._read: dict[Path, str] = {}

    def digests(self, paths: Sequence[Path]) -> dict[str, str]:
        return {self._name(path): self._digest(path) for path in paths if self._is_inside(path)}

    def _is_inside(self, path: Path) -> bool:
        """Return whether a path is in the project, as written, resolved, or up to the last link."""
        ways = (os.path.normpath(path), os.path.realpath(path), self._place(path))
        return any(Path(way).is_relative_to(self._project) for way in ways)

    def _name(self, path: Path) -> str:
        return os.path.relpath(self._place(path), self._project)

    @staticmethod
    def _place(path: Path) -> Path:
        return Path(os.path.realpath(path.parent)) / path.name

    def _digest(self, path: Path) -> str:
        real = Path(os.path.realpath(path))
        if real not in self._read:
            self._read[real] = self._digest_at(real)
        return self._read[real]

    def _digest_at(self, real: Path) -> str:
        if not real.is_relative_to(self._project):  # a link to a file that the owner installed
            return f"is {real}"
        try:
            return self._digest_of(real)
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    def _digest_of(self, path: Path) -> str:
        # Non-blocking: the file may have been replaced by a pipe without a writer.
        with open(os.open(path, _READ), "rb") as file:  # noqa: PTH123 - opened by its descriptor
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return "is no file"
            if status.st_size > self._left:
                return f"is too large: {status.st_size} bytes"
            digest = hashlib.sha256()
            while self._left > 0 and (chunk := file.read(_CHUNK)):
                self._left -= len(chunk)
                digest.update(chunk)
        return digest.hexdigest()


def is_bound(digest: str) -> bool:
    """Return whether this is the digest of a content, not a note why there is none."""
    return " " not in digest


def _folders(texts: Mapping[str, str], base: Path) -> list[tuple[str, Path]]:
    """The folders named by arguments (`--directory`, `cd`), each with the place that names it."""
    folders = [
        (place, path)
        for place, text in texts.items()
        if place != "command"
        for word in _words(text)
        if (path := _path(word, base)) != base and _is(path, Path.is_dir)
    ]
    return folders[:_MOST_FOLDERS]


def _running(texts: Mapping[str, str], base: Path) -> Iterator[tuple[str, Sequence[Path]]]:
    """The code files named relative to a folder, by the place that names them."""
    scripts = _scripts(texts, base)
    for place, text in texts.items():
        # A bare command is looked up on the PATH.
        words = [] if place == "command" else _words(text)
        named = [path for word in words for path in _files(word, base) if _is_code(path)]
        yield place, [*named, *scripts.get(place, ())]


def _scripts(texts: Mapping[str, str], base: Path) -> dict[str, list[Path]]:
    """The first argument of each interpreter: it runs that file, whatever its suffix."""
    scripts: dict[str, list[Path]] = {}
    is_due, before = False, ""
    for place, text in texts.items():
        if place.startswith("env."):
            break
        for word in _split(text) if any(map(str.isspace, text)) else [text]:
            script: list[Path] = []
            if is_due and _MODULE.fullmatch(before):
                script, is_due = _module(word, base), False
            elif is_due and _INLINE.fullmatch(word):
                is_due = False
            elif is_due and not word.startswith("-"):
                script = _script(word, base)
                is_due = not script
            scripts.setdefault(place, []).extend(script)
            is_due = is_due or _INTERPRETER.fullmatch(Path(word).name) is not None
            before = word
    return scripts


def _words(text: str) -> list[str]:
    """Words that may name a file: the text, parts behind `=` or before `:`, parts of a command."""
    words = {text, text.partition("=")[2], *_split(text)}
    words.update(_SEPARATORS.split(text, _MOST_WORDS))
    return sorted((words | {word.rpartition(":")[0] for word in words}) - {""})


def _split(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)[:_MOST_WORDS]
    except ValueError:
        return text.split()[:_MOST_WORDS]


def _files(word: str, base: Path) -> Iterator[Path]:
    """The file of that name, or of that name with a suffix that a program may add."""
    path = _path(word, base)
    ends = _ENDS if "/" in word and not word.endswith("/") else ()
    for file in (path, *(Path(f"{path}{end}") for end in ends)):
        if _is(file, Path.is_file):
            yield file
            return


def _script(word: str, base: Path) -> list[Path]:
    """The files an interpreter runs for a file, a file without its suffix, or a folder."""
    path = _path(word, base)
    if _is(path, Path.is_dir):
        return [path / name for name in _ENTRIES if _is(path / name, Path.is_file)]
    words = (word, word.rpartition(":")[0], *(word + end for end in _ENDS))
    return next(
        ([file] for candidate in words if candidate for file in _files(candidate, base)), []
    )


def _module(name: str, base: Path) -> list[Path]:
    path = base.joinpath(*name.split("."))
    candidates = (Path(f"{path}.py"), path / "__init__.py", path / "__main__.py")
    return [file for file in candidates if _is(file, Path.is_file)]


def _path(word: str, base: Path) -> Path:
    return base / os.path.expanduser(word)  # noqa: PTH111 - as a shell would


def _is_code(path: Path) -> bool:
    try:
        if _CODE.fullmatch(path.suffix) or (os.name == "posix" and os.access(path, os.X_OK)):
            return True
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _is(path: Path, kind: Callable[[Path], bool]) -> bool:
    try:
        return kind(path)
    except (OSError, ValueError):
        return False
