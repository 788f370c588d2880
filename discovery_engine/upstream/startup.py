"""One start of a server: how long it may take, and how far it has come.

The owner's `timeouts.connect` holds for every start. Without it, the first start of a program gets
longer: its modules are not compiled yet, and a package runner may have to download them.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import anyio

from discovery_engine.config.settings import USUAL_CONNECT, ServerSettings, StdioTransport

if TYPE_CHECKING:
    from discovery_engine.upstream.transport import Transport

FIRST_START_TIMEOUT = (
    60.0  # seconds; an interpreter that compiles its modules on a slow disk takes half of it
)
RUNNER_START_TIMEOUT = (
    180.0  # seconds for 200 MB at 10 Mbit/s: an image, or a package with a browser
)

_RUNNERS = frozenset(
    {
        *("npx", "npm", "pnpx", "pnpm", "yarn", "bun", "bunx", "deno"),
        *("uvx", "uv", "pipx", "docker", "podman", "nerdctl"),
        *("go", "cargo", "dotnet", "dnx", "nix", "nix-shell", "jbang"),
    }
)
_ENDINGS = (".exe", ".cmd", ".bat", ".ps1")
_LOOKED_AT = 6  # words; a runner may stand behind `env`, `cmd /c` or `sh -c "exec`


class Startup:
    """Made when a server gets its turn: waiting for a turn takes nothing from its time."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        """Seconds until it must have answered the handshake."""
        self.transport: Transport | None = None
        self._began = anyio.current_time()

    @property
    def seconds(self) -> float:
        """For how long it has been under way."""
        return anyio.current_time() - self._began

    @property
    def stderr(self) -> str:
        """The last lines that its program wrote."""
        return self.transport.stderr if self.transport else ""


def startup_timeout(server: ServerSettings, *, is_first: bool) -> float:
    """Seconds; `is_first` if it has never connected, as far as anybody remembers."""
    if server.timeouts.connect is not None:
        return server.timeouts.connect
    if not is_first or not isinstance(server.transport, StdioTransport):
        return USUAL_CONNECT
    return RUNNER_START_TIMEOUT if _is_run_by_a_runner(server.transport) else FIRST_START_TIMEOUT


def _is_run_by_a_runner(stdio: StdioTransport) -> bool:
    words = " ".join((stdio.command, *stdio.args[:_LOOKED_AT])).split()[:_LOOKED_AT]
    return any(_program(word) in _RUNNERS for word in words)


def _program(word: str) -> str:
    name = PurePosixPath(word.replace("\\", "/")).name.lower()
    ending = next(filter(name.endswith, _ENDINGS), "")
    return name.removesuffix(ending)
