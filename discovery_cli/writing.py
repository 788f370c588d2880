"""Files that a command writes: what the system has against it is an error of the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from discovery_engine._util import files


def replace_file(path: Path, text: str) -> None:
    """Put `text` in place of a file in one step; a new one is its owner's alone.

    Raises:
        UsageError: If it cannot be written; it is then as it was.
    """
    with writing(path):
        files.replace_file(path, text)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """A block that writes a file; an error of the system becomes one that names it.

    Raises:
        UsageError: If it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror or error}") from error
