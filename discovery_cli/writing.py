"""Files that a command writes: what the system has against it is an error of the command line."""

from __future__ import annotations

import contextlib
import errno
import shlex
from collections.abc import Iterator
from pathlib import Path

import click


def replace_file(path: Path, text: str) -> None:
    """Put `text` in place of a file in one step; a new one is its owner's alone.

    Raises:
        UnwritableFileError: If it cannot be written; it is then as it was.
    """
    # `tempfile` takes 3 ms, and every command loads this module for its error.
    from discovery_engine._util import files

    with writing(path):
        files.replace_file(path, text)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """A block that writes a file; an error of the system becomes one that names it.

    Raises:
        UnwritableFileError: If it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise UnwritableFileError(path, error) from error


class UnwritableFileError(click.UsageError):
    """A file that a command should write, and what the system has against it."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")
        self.hint = _hint(path, error)


def _hint(path: Path, error: OSError) -> str:
    folder = str(path.parent.absolute())
    match error:
        case FileNotFoundError():
            return f"create its folder first: mkdir -p {shlex.quote(folder)}"
        case NotADirectoryError() | FileExistsError():
            return f"{folder} is no folder; name another file"
        case PermissionError():
            return f"name a file in a folder that you may write, or change the rights of {folder}"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return "free space on its disk, or name a file on another one"
        case OSError(errno=errno.EROFS):
            return "its disk is read-only; name a file on another one"
    return "name another file"
