"""Log records of the library on stderr: all of them with `-v`, otherwise important ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_cli.output import Output

_LEVELS = {1: logging.INFO, 2: logging.DEBUG}
_CONCERNING = (
    "discovery_engine.engine.restore",
    "discovery_engine.engine.catalog_state",
    "discovery_engine.engine.trust_store",
    "discovery_engine.store",
)
"""Loggers whose warnings the user must see: lost data, slow rules."""

# Without any handler Python prints warnings to stderr, unredacted.
logging.getLogger("discovery_engine").addHandler(logging.NullHandler())


@contextmanager
def logged(output: Output, verbosity: int, notes: dict[str, None]) -> Iterator[None]:
    """Show log records while the block runs.

    Args:
        output: Where notes go.
        verbosity: How often `-v` was given.
        notes: Notes that were shown before; they are not repeated, and new ones are added.
    """
    if verbosity:
        level = _LEVELS.get(verbosity, logging.DEBUG)
        from discovery_server.logs import HarmlessFormatter

        stderr = logging.StreamHandler()
        stderr.setFormatter(HarmlessFormatter("%(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=level, handlers=[stderr])
        yield
        return
    handlers = {name: _NoteHandler(output, notes) for name in _CONCERNING} | {
        "": logging.NullHandler()
    }
    for name, handler in handlers.items():
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name, handler in handlers.items():
            logging.getLogger(name).removeHandler(handler)


class _NoteHandler(logging.Handler):
    """Writes a warning as a note."""

    def __init__(self, output: Output, notes: dict[str, None]) -> None:
        super().__init__(logging.WARNING)
        self._output = output
        self._shown = notes

    def emit(self, record: logging.LogRecord) -> None:
        from discovery_engine.secrets.known_secrets import KNOWN_SECRETS

        message = KNOWN_SECRETS.redact_log(record.getMessage())
        if message in self._shown:
            return
        self._shown[message] = None
        self._output.say(f"note: {message[:1].lower()}{message[1:]}")
