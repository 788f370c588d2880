"""Shell commands that take over a machine, known by their form."""

from __future__ import annotations

import re

_COMMAND = re.compile(
    r"\b(?:curl|wget|iwr)\b[^|\n]{1,200}\| ?(?:sudo )?(?:ba|z|da)?(?:sh|iex)\b"
    r"|\brm -rf (?:~|/(?!tmp|var/cache|path))"
    r"|\bpowershell\b[^\n]{0,60} -(?:e(?:nc|ncodedcommand)?|w(?:indowstyle)? hidden)\b"
    r"|\b(?:ba)?sh -i [^\n]{0,20}/dev/tcp/"
    r"|\b(?:env|printenv|set) ?\| ?curl\b"
    r"|\b(?:curl|wget)\b[^\n]{0,120}\$\((?:hostname|whoami|env|id|cat|pwd)"
    r"|\bchmod u\+s\b|\bos\.system\(|\bufw disable\b|\bsetenforce 0\b"
)
MARKS = (
    *("curl", "wget", "iwr", "rm -rf", "powershell", "sh -i"),
    *("chmod u+s", "os.system(", "ufw disable", "setenforce 0"),
)
"""One of these is in any of them; `env | curl` has `curl`."""


def command_in(reading: str) -> re.Match[str] | None:
    """The first such command in a plain reading."""
    return _COMMAND.search(reading)
