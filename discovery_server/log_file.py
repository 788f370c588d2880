"""The log file, written by a thread, so that a stalled disk does not block the event loop."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import NoReturn

from discovery_server.line_writer import LineWriter, write_all

logger = logging.getLogger(__name__)

_SIZE = 10 * 1024 * 1024  # bytes
_FILES = 5  # kept beside the current one
_MAX_WAITING_CHARACTERS = 16 * 1024 * 1024  # characters that may wait for the disk
_LAST_WAIT = 1.0  # seconds


@contextmanager
def opened(path: Path) -> Iterator[LineWriter]:
    """A stream into a rotating file, or into a pipe or device of that name.

    Raises:
        OSError: If it cannot be written.
    """
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _File(path) if _is_regular(path) else _Pipe(path)
    writer = LineWriter(_WarningWriter(file, path).write, max_waiting=_MAX_WAITING_CHARACTERS)
    try:
        yield writer
    finally:
        if writer.close(_LAST_WAIT):
            with suppress(OSError):  # a full disk, which was logged
                file.close()


def _is_regular(path: Path) -> bool:
    """Return whether it is a regular file, or does not exist yet."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


class _WarningWriter:
    """Writes to a file; the first of consecutive failures is logged as a warning to stderr."""

    def __init__(self, file: _File | _Pipe, path: Path) -> None:
        self._file = file
        self._path = path
        self._is_failing = False

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                reason = error.strerror or str(error)
                logger.warning("The log file %s cannot be written: %s", self._path, reason)
            raise
        self._is_failing = False


class _File(RotatingFileHandler):
    terminator = ""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_SIZE, backupCount=_FILES, encoding="utf-8")

    def write(self, text: str) -> None:
        self.emit(logging.makeLogRecord({"msg": text}))

    def handleError(self, _: logging.LogRecord) -> NoReturn:  # noqa: N802 - the library's name
        """Raise the error, which the library would print with a traceback for each record."""
        raise  # noqa: PLE0704 - it is called where an error is handled


class _Pipe:
    """A pipe, a terminal or `/dev/stderr`: without a size, and its writer can block."""

    def __init__(self, path: Path) -> None:
        # Without O_NONBLOCK opening a named pipe waits for a reader.
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
        self._descriptor = os.open(path, flags)

    def write(self, text: str) -> None:
        write_all(self._descriptor, text.encode(errors="replace"))

    def close(self) -> None:
        os.close(self._descriptor)
