"""Headings for the parts of a diff: the keys that its first line stands under, as in `diff -p`.

@@ -12,7 +12,7 @@ servers: mail: env:
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff

_PART = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_KEY = re.compile(r"""\s*(["']?)([^\s"'#{}\[\],:-][^"'#:]*)\1\s*:(?=\s|$)""")


def headed_diff(before: Sequence[str], after: Sequence[str], name: str) -> str:
    """A unified diff of lines, of which the last may have no end."""
    lines = (
        _headed(line, before) if line.startswith("@@") else line
        for line in unified_diff(before, after, name, name)
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def keys_above(lines: Sequence[str], at: int) -> str:
    """The keys that a line of YAML or JSON stands under, the outermost first, as it is indented.

    Of an item of a list, its first line stands for it.
    """
    keys: list[str] = []
    limit = next((_column(line) for line in lines[at:] if _has_content(line)), 0.0)
    for line in reversed(lines[:at]):
        if limit and _has_content(line) and _column(line) < limit:
            limit = _column(line)
            key = _KEY.match(line)
            if key or line.lstrip().startswith("- "):
                keys.append(f"{key[2]}:" if key else line.strip())
    return " ".join(reversed(keys))


def _headed(line: str, before: Sequence[str]) -> str:
    part = _PART.match(line)
    heading = keys_above(before, max(0, int(part[1]) - 1)) if part else ""
    return f"{line.rstrip()} {heading}\n" if heading else line


def _column(line: str) -> float:
    """Where a line starts; a dash may stand below its key, and is deeper all the same."""
    plain = line.lstrip(" \t")
    return len(line) - len(plain) + (0.5 if plain.startswith("- ") else 0)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
