"""Where a serving process writes what happens: stderr, a rotating file, never stdout.

Records are redacted where they are logged, and written by threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine._util.text import clean
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_server import log_file, standard_error
from discovery_server.repeats import RepeatFilter

if TYPE_CHECKING:
    from discovery_engine.config.settings import LogSettings

logger = logging.getLogger(__name__)

_FILE = "DISCOVERY_LOG_FILE"
_LEVEL = "DISCOVERY_LOG_LEVEL"
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_MORE = "\n    "  # before what follows the first line, so that no message can fake a record

# They report every request, or every stray line of a child, at levels meant for developers.
_CHATTY = ("mcp", "httpx2", "httpcore2", "uvicorn")
# What programs write for their developers is kept in a file; a host's own log is no place for it.
_OVERHEARD = "discovery_engine.upstream.stderr_log"


class HarmlessFormatter(logging.Formatter):
    """Formats records, tracebacks too, without secrets and without what a terminal would obey.

    Libraries write into the log whatever they send and receive.
    """

    def format(self, record: logging.LogRecord) -> str:
        head, name, message = clean(super().format(record)).partition(f"{record.name}: ")
        # A logger may be named as a header is, after which everything counts as a credential.
        text = KNOWN_SECRETS.redact_log(message if name else head)
        return (head + name + text if name else text).replace("\n", _MORE)


@contextmanager
def log_to(settings: LogSettings, environ: Mapping[str, str]) -> Iterator[None]:
    """Log as configured while the block runs; `environ` overrides level and file.

    The file rotates at 10 MB and five older ones are kept. Its folder is made if need be. One that
    cannot be written is warned of, and does without. What programs write to their error output is
    logged to the file; to stderr only with level `debug`. Warnings of libraries that come over and
    over are counted.
    """
    with ExitStack() as streams:
        streams.enter_context(standard_error.unblocked())
        level = _level(environ.get(_LEVEL) or settings.level)
        file, problem = environ.get(_FILE) or settings.file, ""
        handlers = _to_stderr(settings, level)
        try:
            if file:
                stream = streams.enter_context(log_file.opened(Path(file)))
                handlers.append(logging.StreamHandler(stream))
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
    """The level of that name; an unknown one must not keep the server from starting."""
    return logging.getLevelNamesMapping().get(name.upper(), logging.INFO)


def _to_stderr(settings: LogSettings, level: int) -> list[logging.Handler]:
    if not settings.stderr:
        return []
    handler = logging.StreamHandler()
    if level > logging.DEBUG:
        handler.addFilter(lambda record: record.name != _OVERHEARD)
    return [handler]
