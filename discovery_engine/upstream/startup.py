"""One start of a server: its time limit and its progress.

The owner's `timeouts.connect` applies to every start. Without it, the first start of a program
gets longer: its modules are not compiled yet, and a package runner may have to download them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from discovery_engine.config.command_words import PACKAGE_RUNNERS, program_name
from discovery_engine.config.settings import USUAL_CONNECT, ServerSettings, StdioTransport

if TYPE_CHECKING:
    from discovery_engine.upstream.transport import Transport

FIRST_START_TIMEOUT = (
    60.0  # seconds; an interpreter that compiles its modules on a slow disk takes half of it
)
RUNNER_START_TIMEOUT = (
    180.0  # seconds for 200 MB at 10 Mbit/s: an image, or a package with a browser
)

_LEADING_WORDS = 6  # a runner may follow `env`, `cmd /c` or `sh -c "exec`


class Startup:
    """Created when a server gets its start slot: waiting for the slot does not count."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        """Seconds within which it must answer the handshake."""
        self.transport: Transport | None = None
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since it began; may be read in any thread, as states of servers are."""
        return time.monotonic() - self._began

    @property
    def stderr(self) -> str:
        """The last stderr lines of its program."""
        return self.transport.stderr if self.transport else ""


def startup_timeout(server: ServerSettings, *, is_first: bool) -> float:
    """Seconds a start may take; `is_first` if no earlier connection is stored."""
    if server.timeouts.connect is not None:
        return server.timeouts.connect
    if not is_first or not isinstance(server.transport, StdioTransport):
        return USUAL_CONNECT
    return RUNNER_START_TIMEOUT if _is_run_by_a_runner(server.transport) else FIRST_START_TIMEOUT


def _is_run_by_a_runner(stdio: StdioTransport) -> bool:
    words = " ".join((stdio.command, *stdio.args[:_LEADING_WORDS])).split()[:_LEADING_WORDS]
    return any(program_name(word) in PACKAGE_RUNNERS for word in words)
