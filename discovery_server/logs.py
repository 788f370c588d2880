"""Logging of a serving process: to stderr and a rotating file, never to stdout.

Records are redacted by the formatter, and written by threads.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from msgspec import Struct

from discovery_engine._util.text import clean
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_server import standard_error
from discovery_server.log_queue import LogQueue, write_all

if TYPE_CHECKING:
    from discovery_engine.config.settings import LogSettings

# A log filter for repeated warnings of libraries: the first few are logged, the rest are counted.
#
# A client can cause a warning of the HTTP server with each request, and asyncio warns of every
# connection when descriptors run out: thousands of records a second, each with a stack trace.

logger = logging.getLogger(__name__)

_FILE = "DISCOVERY_LOG_FILE"
_LEVEL = "DISCOVERY_LOG_LEVEL"
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_MORE = "\n    "  # before each further line, so that no message can forge a record

# These log every request or every unexpected line at INFO.
_FILE_SIZE = 10 * 1024 * 1024  # bytes
_OLDER_FILES = 5  # kept beside the current one
_MAX_WAITING = 100_000  # lines that may wait for the disk
_LAST_WAIT = 1.0  # seconds

_CHATTY = ("httpx2", "httpcore2", "uvicorn")
# The stderr of servers goes to the log file only.
_SERVER_STDERR = "discovery_engine.upstream.stderr_log"


class HarmlessFormatter(logging.Formatter):
    """Formats records and tracebacks without secrets and without terminal control characters.

    Libraries log parts of what they send and receive.
    """

    def format(self, record: logging.LogRecord) -> str:
        head, name, message = clean(super().format(record)).partition(f"{record.name}: ")
        # A logger may have the name of a header, after which everything would be redacted.
        text = KNOWN_SECRETS.redact_log(message if name else head)
        return (head + name + text if name else text).replace("\n", _MORE)


@contextmanager
def log_to(settings: LogSettings, environ: Mapping[str, str]) -> Iterator[None]:
    """Log as configured while the block runs; `environ` overrides level and file.

    The file rotates at 10 MB and five older ones are kept. Its folder is created. If it cannot
    be written, a warning is logged and logging continues without it. The stderr of servers is
    logged to the file; to stderr only with level `debug`. Repeated warnings of libraries are
    counted.
    """
    with ExitStack() as streams:
        streams.enter_context(standard_error.unblocked())
        level = _level(environ.get(_LEVEL) or settings.level)
        file, problem = environ.get(_FILE) or settings.file, ""
        handlers = _to_stderr(settings, level)
        try:
            if file:
                handlers.append(streams.enter_context(_log_file(Path(file).expanduser())))
        except OSError as error:
            problem = error.strerror or str(error)
        with _handled(handlers, level):
            if problem:
                logger.warning("The log file %s cannot be written: %s", file, problem)
            yield


@contextmanager
def _handled(handlers: Sequence[logging.Handler], level: int) -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    repeats = RepeatFilter()
    for handler in handlers:
        handler.setFormatter(HarmlessFormatter(_FORMAT))
        handler.addFilter(repeats)
        root.addHandler(handler)
    try:
        yield
    finally:
        repeats.report()
        root.setLevel(before)
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.NOTSET)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


def _level(name: str) -> int:
    """The level of that name; INFO for an unknown one, which must not prevent the start."""
    return logging.getLevelNamesMapping().get(name.upper(), logging.INFO)


def _to_stderr(settings: LogSettings, level: int) -> list[logging.Handler]:
    if not settings.stderr:
        return []
    handler = logging.StreamHandler()
    if level > logging.DEBUG:
        handler.addFilter(lambda record: record.name != _SERVER_STDERR)
    return [handler]


_LIBRARIES = frozenset({"anyio", "asyncio", "mcp", "uvicorn"})
_FIRST = 5  # that are logged within a window
_WINDOW = 60.0  # seconds
_MARK = "is_repeat"

_Kind: TypeAlias = tuple[str, int, Any]


class _Window(Struct):
    ends: float
    seen: int = 0


class RepeatFilter(logging.Filter):
    """Shared by all handlers of a log, so that a record is counted once."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._windows: dict[_Kind, _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or record.name.partition(".")[0] not in _LIBRARIES:
            return True
        if not hasattr(record, _MARK):
            setattr(record, _MARK, self._is_repeat(record))
        return not getattr(record, _MARK)

    def report(self) -> None:
        """Log the counts that were not reported yet."""
        for kind, window in self._windows.items():
            _report(kind, window)
        self._windows.clear()

    def _is_repeat(self, record: logging.LogRecord) -> bool:
        # By position in the code: the text may contain the id of a session or a task.
        kind = record.name, record.lineno, record.exc_info[0] if record.exc_info else None
        now = self._clock()
        window = self._windows.setdefault(kind, _Window(now + _WINDOW))
        if now >= window.ends:
            _report(kind, window)
            window = self._windows[kind] = _Window(now + _WINDOW)
        window.seen += 1
        return window.seen > _FIRST


def _report(kind: _Kind, window: _Window) -> None:
    if (left_out := window.seen - _FIRST) > 0:
        logger.warning(
            "%d more warnings of %s like the last ones were suppressed", left_out, kind[0]
        )


@contextmanager
def _log_file(path: Path) -> Iterator[LogQueue]:
    """A handler that writes to a rotating file, or to a pipe or device of that name, in a thread.

    Raises:
        OSError: If it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _File(path) if _is_regular(path) else _Pipe(path)
    queue = LogQueue(_WarningWriter(file, path).write, _MAX_WAITING)
    try:
        yield queue
    finally:
        if queue.close_within(_LAST_WAIT):
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
        super().__init__(path, maxBytes=_FILE_SIZE, backupCount=_OLDER_FILES, encoding="utf-8")

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
