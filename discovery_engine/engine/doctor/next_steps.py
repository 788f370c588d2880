"""The next step for a server, as a command to type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.view.status import ServerReport

_COMMAND = re.compile(r"`((?:discovery|export|pip install) [^`]+)`")
_BY_AUTHOR = "only its author can correct what is unusable"
# The command if the hint names none: one that explains the problem, never one that would only fail
# again.
_BY_STATUS = {
    "needs_config": "discovery config check",
    "needs_auth": "discovery health {server}",
    "failing": "discovery health {server}",
    "crash-looping": "discovery health {server}",
    "degraded": "discovery health {server}",
    "pending": "discovery refresh {server}",
}


def next_command(server: ServerReport) -> str:
    """The command that repairs a server, or explains how; empty if none is needed."""
    if named := _COMMAND.search(server.hint):
        return named[1]
    if server.state == "needs_config" and server.failure:  # a referenced value is missing
        return f"discovery health {server.name}"
    if command := _BY_STATUS.get(server.state):
        return command.format(server=server.name)
    if server.withheld_count:
        return f"discovery review {server.name}"
    return f"discovery health {server.name}" if server.has_problem else ""


def advice(server: ServerReport, *alike: ServerReport) -> str:
    """The first step, and the command to try the server afterwards, with others like it."""
    hint, again = server.hint, _trial(server, *alike)
    is_whole = "`discovery " in hint and "`export " not in hint
    if not again or is_whole:
        return hint
    if hint:
        return f"{hint}; then `{again}`"
    return f"`{again}` tries it again" if server.reason else f"`{again}` asks it"


def advice_in_full(server: ServerReport) -> str:
    """The same for the full view of a server, which shows its stderr."""
    if server.is_healthy and server.dropped:
        return _BY_AUTHOR
    again = _trial(server)
    leads_here = f"`discovery health {server.name}`" in server.hint
    if not again or not server.reason or (server.hint and not leads_here):
        return advice(server)
    below = "fix the error in its stderr, below" if server.stderr else "fix the cause in the reason"
    return f"{below}; then `{again}`"


def _trial(server: ServerReport, *alike: ServerReport) -> str:
    """The command that tries repaired servers; empty if they are healthy."""
    if server.state == "needs_config" and not server.failure:
        return "discovery config check"
    is_tried = server.state in _BY_STATUS
    names = " ".join(report.name for report in (server, *alike))
    return f"discovery refresh {names}" if is_tried else ""


def with_detail(reason: str, detail: str) -> str:
    """A reason with its detail for the owner."""
    return f"{reason} ({detail})" if detail else reason
