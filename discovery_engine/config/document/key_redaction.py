"""Redacts unknown keys: a secret may have been written where a key belongs.

Without its colon, `Authorization "Bearer …"` is a key without a value. It would appear in the path,
the message and the excerpt of a problem, so it is redacted before any of them is made. No valid
key looks like one of these, so nothing usable is lost.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from discovery_engine.config.document.tree import Node, Path
from discovery_engine.secrets.references import REDACTED

NAME_LIKE = re.compile(rf"[^\s\"=,{{}}\[\]{REDACTED}]{{1,200}}")
"""The form of every valid key, except for the names of servers; no redacted key has it."""

# How variables and headers are usually spelt; a key that has a value may be freer.
_USUAL = re.compile(r"[A-Z][A-Z0-9_]*|[A-Z][a-z]+(-[A-Z][a-z]+)*")


class _Place(Enum):
    """Where a mapping stands, which decides what its keys may be."""

    TOP = auto()
    SERVERS = auto()
    ENTRY = auto()
    NAMES = auto()
    """`env` or `headers`."""
    OVERRIDES = auto()
    """`overrides`, and an entry of it."""
    ARGUMENTS = auto()
    PINNED = auto()
    """A value under `arguments`, whose keys are free."""
    VALUE = auto()
    """Where no mapping belongs."""
    OTHER = auto()


_BELOW = {
    _Place.TOP: {
        "discovery": _Place.TOP,
        "servers": _Place.SERVERS,
        "overrides": _Place.OVERRIDES,
    },
    _Place.OVERRIDES: {"arguments": _Place.ARGUMENTS},
    _Place.ENTRY: {
        "env": _Place.NAMES,
        "headers": _Place.NAMES,
        **dict.fromkeys(("command", "args", "cwd", "url"), _Place.VALUE),
    },
}
_ALWAYS_BELOW = {
    _Place.OVERRIDES: _Place.OVERRIDES,
    _Place.ARGUMENTS: _Place.PINNED,
    _Place.PINNED: _Place.PINNED,
    _Place.SERVERS: _Place.ENTRY,
    _Place.NAMES: _Place.VALUE,
    _Place.VALUE: _Place.VALUE,
}


def redact_keys(root: Node, words: frozenset[str]) -> None:
    """Rename every key below `root` that could be a secret; `words` are our own keys."""
    _conceal(root, words, _Place.TOP)


def redacted_path(path: Path) -> str:
    """A key path that is safe to display; the name of a server may be any text."""
    names_server = path[:1] == ("servers",)
    return ".".join(
        str(step) if number == 1 and names_server else _shown_step(step)
        for number, step in enumerate(path)
    )


def _shown_step(step: str | int) -> str:
    return str(step) if isinstance(step, int) or NAME_LIKE.fullmatch(step) else REDACTED


def _conceal(node: Node, words: frozenset[str], place: _Place) -> None:
    for key, member in node.children():
        below = _BELOW.get(place, {}).get(str(key)) or _ALWAYS_BELOW.get(place, _Place.OTHER)
        _conceal(member, words, below)
        member.is_key_redacted = not (
            isinstance(key, int) or key in words or _is_safe(key, member, place)
        )
    if isinstance(node.value, dict) and place is not _Place.PINNED:
        node.value = {
            f"{REDACTED}{number}" if member.is_key_redacted else key: member
            for number, (key, member) in enumerate(node.value.items(), 1)
        }


def _is_safe(key: str, member: Node, place: _Place) -> bool:
    if place in (_Place.SERVERS, _Place.VALUE):
        return place is _Place.SERVERS
    return bool((_USUAL if member.is_null else NAME_LIKE).fullmatch(key))
