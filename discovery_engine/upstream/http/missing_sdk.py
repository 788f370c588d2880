"""The error of a remote server where version 2 of the MCP SDK is not installed.

Some agent frameworks exclude that version. Beside them everything but remote servers works.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from discovery_engine.errors import FailureKind, UnavailableError


def missing_sdk(server: str) -> UnavailableError:
    """The error of a server that is reached over HTTP, whose import of the SDK failed."""
    return UnavailableError(
        server,
        FailureKind.OTHER,
        f"remote servers need version 2 of the package `mcp`, and {_installed()}",
        hint="`pip install 'mcp>=2.3'`; beside a library that excludes it, run `discovery serve`"
        " in an environment of its own, and connect to that",
    )


def _installed() -> str:
    try:
        return f"version {version('mcp')} is installed"
    except PackageNotFoundError:
        return "it is not installed"
