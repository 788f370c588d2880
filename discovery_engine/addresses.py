"""The ways in which callers name a tool in one word.

github:create_issue          the form of this project
github__create_issue         a common one of gateways
github.create_issue
mcp__github__create_issue    as some hosts show it
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from discovery_engine.tools import ServerName, ToolName

_SEPARATORS = (":", "__", ".")
_HOST_PREFIX = re.compile(r"^mcp__", re.IGNORECASE)


def readings(word: str, servers: Iterable[ServerName]) -> list[tuple[ServerName, ToolName]]:
    """Every way to read `word` as one of `servers` and a tool; the longest server name first.

    A server's name is read in any case; the tool's is left as it is.
    """
    spellings = dict.fromkeys((word, _HOST_PREFIX.sub("", word)))
    return [
        (server, ToolName(spelling[len(server) + len(separator) :]))
        for spelling in spellings
        for server in sorted(servers, key=len, reverse=True)
        for separator in _SEPARATORS
        if spelling.casefold().startswith(server.casefold() + separator)
    ]
