"""The files that a configuration was read from, and whether they are still the same.

It imports only the standard library: a start with unchanged inputs uses the stored configuration
and loads no parser.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from discovery_engine._util import digests
from discovery_engine._util.files import read_regular, require_regular
from discovery_engine.config.settings import InputFile

_PART = 1 << 18  # bytes


def read_input(path: str, *, limit: int) -> tuple[bytes, InputFile]:
    """A file's content, and the record of having read just that.

    Raises:
        OSError: If it is not there, cannot be read, is no regular file, or is larger than
            `limit` bytes.
    """
    content = read_regular(path, limit=limit)
    return content, InputFile(path, digests.digest(content).hex())


def observe(path: str) -> InputFile:
    """The record of a file as it is now, of whatever size; without a digest if it is not there."""
    try:
        require_regular(path)
        with Path(path).open("rb") as file:
            return InputFile(path, _digest(file))
    except OSError:
        return InputFile(path, None)


def is_current(inputs: Iterable[InputFile]) -> bool:
    """Return whether no file has changed since it was read, and each absent one is still absent."""
    return all(observe(input_file.path) == input_file for input_file in inputs)


def _digest(file: BinaryIO) -> str:
    blake = digests.blake2b(digest_size=digests.SIZE)
    while part := file.read(_PART):
        blake.update(part)
    return blake.hexdigest()
