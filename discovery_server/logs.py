"""The log of a serving process: to stderr and a rotating file, never to stdout.

Records are redacted by the formatter, and written by threads, so that logging never waits for a
reader: a pipe that is not read is full after 64 KiB, and the next write to it blocks forever. Many
clients start a gateway and never read its stderr.
"""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeAlias

from msgspec import Struct

from discovery_engine._util.text import clean
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS

if TYPE_CHECKING:
    from discovery_engine.config.settings import LogSettings


logger = logging.getLogger(__name__)

_FILE = "DISCOVERY_LOG_FILE"
_LEVEL = "DISCOVERY_LOG_LEVEL"
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_MORE = "\n    "  # before each further line, so that no message can forge a record

EACH_LINE = {"is_each_line": True}
"""The `extra` of a record whose lines are logged as one record each: a record takes 100 us."""

_FILE_SIZE = 10 * 1024 * 1024  # bytes
_OLDER_FILES = 5  # kept beside the current one
_MAX_LINES_FOR_DISK = 100_000  # lines that may wait for the disk
_MAX_LINES_FOR_READER = 2000  # lines that may wait for the reader of stderr
_BATCH = 64 * 1024  # characters
_LAST_WAIT = 1.0  # seconds; clients kill a server two seconds after they closed its stdin

# These log every request or every unexpected line at INFO.
_CHATTY = ("httpx2", "httpcore2", "uvicorn")
# The stderr of servers goes to the log file only.
_SERVER_STDERR = "discovery_engine.upstream.server_output"


class HarmlessFormatter(logging.Formatter):
    """Formats records and tracebacks without secrets and without terminal control characters.

    Libraries log parts of what they send and receive.
    """

    def format(self, record: logging.LogRecord) -> str:
        head, name, message = clean(super().format(record)).partition(f"{record.name}: ")
        # A logger may have the name of a header, after which everything would be redacted.
        text = KNOWN_SECRETS.redact_log(message if name else head)
        begin = head + name if name else ""
        is_each = getattr(record, "is_each_line", False)
        return begin + text.replace("\n", f"\n{begin}" if is_each else _MORE)


@contextmanager
def log_to(settings: LogSettings, environ: Mapping[str, str]) -> Iterator[None]:
    """Log as configured while the block runs; `environ` overrides level and file.

    The file rotates at 10 MB and five older ones are kept. Its folder is created. If it cannot
    be written, a warning is logged and logging continues without it. The stderr of servers is
    logged to the file; to stderr only with level `debug`. Repeated warnings of libraries are
    counted.
    """
    with ExitStack() as streams:
        streams.enter_context(unblocked_stderr())
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
    """Lets the first few equal warnings of libraries pass, and counts the rest.

    A client can cause a warning of the HTTP server with each request, and asyncio warns of every
    connection when descriptors run out: thousands of records a second, each with a stack trace.
    All handlers of a log share it, so that a record is counted once.
    """

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
    queue = LogQueue(_WarningWriter(file, path).write, _MAX_LINES_FOR_DISK)
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


class _File:
    """A regular file, which rotates."""

    def __init__(self, path: Path) -> None:
        from logging.handlers import RotatingFileHandler  # noqa: PLC0415 - most log to stderr alone

        self._handler = RotatingFileHandler(
            path, maxBytes=_FILE_SIZE, backupCount=_OLDER_FILES, encoding="utf-8"
        )
        self._handler.terminator = ""
        self._handler.handleError = _raise  # type: ignore[method-assign] # else it prints a traceback
        self.close = self._handler.close

    def write(self, text: str) -> None:
        self._handler.emit(logging.makeLogRecord({"msg": text}))


def _raise(record: logging.LogRecord) -> NoReturn:  # noqa: ARG001 - the signature of the library
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


class LogQueue(logging.Handler):
    """Passes formatted records to a thread, in which `write` is called with their text.

    When `most` lines wait, further ones are dropped until these are written; then a line reports
    how many those were. `write` may block; when it raises an OSError, the text is dropped.
    All that waits is written together: beside a busy event loop the thread runs every 5 ms only.
    """

    # Not a `QueueHandler`: its queue took a tenth of a call for the call's line.

    def __init__(self, write: Callable[[str], object], most: int) -> None:
        super().__init__()
        self._write = write
        self._most = most
        self._waiting: deque[str] = deque()
        self._dropped = 0  # lines
        self._is_busy = self._is_closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.put(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 - as handlers do: no log line stops what is logged
            self.handleError(record)

    def put(self, text: str) -> None:
        """Pass on a text as it is; no-op for an empty one."""
        if not text:
            return
        with self._changed:
            if not self._waiting:
                self._report_dropped()
            lines = text.splitlines(keepends=True)
            room = 0 if self._dropped else self._most - len(self._waiting)
            self._waiting.extend(lines[:room])
            self._dropped += len(lines[room:])
            if not self._is_busy:
                self._changed.notify()

    def close_within(self, seconds: float) -> bool:
        """Wait at most so long until all is written; True if it is."""
        with self._changed:
            if not self._changed.wait_for(lambda: not (self._waiting or self._is_busy), seconds):
                return False  # the thread is a daemon, and ends with the process
            self._report_dropped()
            self._is_closed = True
            self._changed.notify()
        self._thread.join()
        return True

    def _report_dropped(self) -> None:
        if self._dropped:
            self._waiting.append(f"… {self._dropped} log lines were dropped\n")
            self._dropped = 0

    def _run(self) -> None:
        while batch := self._next_batch():
            with suppress(OSError):  # the reader is gone, or the disk full
                self._write(batch)

    def _next_batch(self) -> str:
        """Wait for text; empty at the end."""
        with self._changed:
            self._is_busy = False
            self._changed.notify()
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            self._is_busy = True
            batch, size = [], 0
            while self._waiting and size < _BATCH:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
            return "".join(batch)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, also to a descriptor that was set non-blocking elsewhere."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()


@contextmanager
def unblocked_stderr() -> Iterator[None]:
    """A block in which writing to `sys.stderr` returns at once, even if it is not read.

    Besides the log, warnings, tracebacks of threads and destructors, and the address of the server
    are written to it. At the end the reader has a second for the text that still waits.
    """
    stream = sys.stderr
    if not _can_block(stream):
        yield
        return
    descriptor, encoding = stream.fileno(), stream.encoding
    stream.flush()
    queue = LogQueue(
        lambda text: write_all(descriptor, text.encode(encoding, "backslashreplace")),
        _MAX_LINES_FOR_READER,
    )
    try:
        with redirect_stderr(_Unblocked(queue, stream)):
            yield
    finally:
        queue.close_within(_LAST_WAIT)


def _can_block(stream: TextIO) -> bool:
    if isinstance(stream, _Unblocked):
        return False
    try:
        stream.fileno()
    except (AttributeError, OSError):  # a stream in memory
        return False
    # A Windows console takes text; it would decode bytes with an old code page.
    return not (sys.platform == "win32" and stream.isatty())


class _Unblocked(io.TextIOBase):
    def __init__(self, queue: LogQueue, stream: TextIO) -> None:
        self._queue = queue
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._queue.put(text)
        return len(text)
