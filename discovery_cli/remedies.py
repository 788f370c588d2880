"""What to do about a server, as a command of this program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.health import ServerHealth

_COMMAND = re.compile(r"`((?:discovery|export) [^`]+)`")
_TRIED_AGAIN = {"failing", "crash-looping", "degraded", "needs_auth", "pending"}


def remedy(server: ServerHealth) -> str:
    """The command that mends a server, or tries it once its owner has; empty if none is needed."""
    summary = server.summary
    if named := _COMMAND.search(summary.hint):
        return named[1]
    if summary.status == "needs_config":
        return f"discovery refresh {server.server}" if server.code else "discovery config validate"
    if summary.status in _TRIED_AGAIN:
        return f"discovery refresh {server.server}"
    return f"discovery review {server.server}" if summary.withheld_count else ""


def advice(server: ServerHealth) -> str:
    """What to do first, and the command that then tries it."""
    hint, command = server.summary.hint, remedy(server)
    if not command or command in hint:
        return hint
    return f"{hint}; then `{command}`" if hint else f"`{command}` tries it again"
