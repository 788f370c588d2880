"""The next step for a server, as a command to type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.runtime.health import ServerHealth

_COMMAND = re.compile(r"`((?:discovery|export|pip install) [^`]+)`")
# What to type where the hint names no command: first what explains it, and never what would only
# fail again.
_BY_STATUS = {
    "needs_config": "discovery config validate",
    "needs_auth": "discovery health {server}",
    "failing": "discovery health {server}",
    "crash-looping": "discovery health {server}",
    "degraded": "discovery health {server}",
    "pending": "discovery refresh {server}",
}


def remedy(server: ServerHealth) -> str:
    """The command that repairs a server, or explains how; empty if none is needed."""
    summary = server.summary
    if named := _COMMAND.search(summary.hint):
        return named[1]
    if summary.status == "needs_config" and server.code:  # a referenced value is missing
        return f"discovery health {server.server}"
    if command := _BY_STATUS.get(summary.status):
        return command.format(server=server.server)
    return f"discovery review {server.server}" if summary.withheld_count else ""


def advice(server: ServerHealth) -> str:
    """The first step, and the command to try the server afterwards."""
    hint, again = server.summary.hint, _trial(server)
    if not again or "`discovery " in hint:
        return hint
    if hint:
        return f"{hint}; then `{again}`"
    return f"`{again}` tries it again" if server.summary.reason else f"`{again}` asks it"


def advice_in_full(server: ServerHealth) -> str:
    """The same for the full view of a server, which shows its stderr."""
    summary, again = server.summary, _trial(server)
    leads_here = f"`discovery health {server.server}`" in summary.hint
    if not again or not summary.reason or (summary.hint and not leads_here):
        return advice(server)
    below = "mend what it wrote last, below" if summary.stderr else "mend what the reason says"
    return f"{below}; then `{again}`"


def _trial(server: ServerHealth) -> str:
    """The command that tries a repaired server; empty if it is healthy."""
    if server.status == "needs_config" and not server.code:
        return "discovery config validate"
    is_tried = server.status in _BY_STATUS
    return f"discovery refresh {server.server}" if is_tried else ""
