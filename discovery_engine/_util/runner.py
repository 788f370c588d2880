"""The command that runs this program again from any folder, if a package runner started it."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = "mcp-discovery-engine"


def runner() -> tuple[str, ...]:
    """Return the words of `uvx` or `pipx run` that run this program; none if it is installed.

    Their environment is in a cache, and may be gone tomorrow.
    """
    folders = Path(sys.prefix).parts
    if any(folder.startswith(("archive-v", "environments-v")) for folder in folders):
        return "uvx", _PACKAGE
    if "pipx" in folders and "venvs" not in folders:
        return "pipx", "run", _PACKAGE
    return ()
