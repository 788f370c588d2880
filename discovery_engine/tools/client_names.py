"""The names of tools towards clients: `github__create_issue`.

A host gives all names to its model in one flat list, with few allowed characters. A name is a pure
function of the tool's server and name, so neither a restart nor other tools change it.

    github:create_issue     github__create_issue
    github:get/user         github__get_user_4k3q6yvm       `/` is not allowed: a hash follows

A name without a hash has only one reading; an ambiguous one gets a hash. If two hashes collide,
both tools get another one: no tool can take over the name of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct

from discovery_engine._util import digests
from discovery_engine.tools.meta_tools import ALL_META_TOOLS, POOL_SEARCHES
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

Style: TypeAlias = Literal["standard", "gemini"]

RESERVED = frozenset({*ALL_META_TOOLS, *POOL_SEARCHES})
"""The names of meta-tools, which no tool of a server gets."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_DIGITS = "234567"
_HASH_LENGTH = 9
"""Characters, with the underscore. A hash begins with a digit, unlike the last word of a name."""
_ROUNDS = 16
"""Hashes that are tried for one tool; a tool without a name needs 16 successive collisions."""


class _Style(Struct, frozen=True):
    server: re.Pattern[str]
    """Matches the names of servers that are unambiguous before the separator."""
    tool: re.Pattern[str]
    """Matches the names of tools that need no change."""
    separator: str
    other: re.Pattern[str]
    """Matches the characters that an underscore replaces."""
    begins: re.Pattern[str]
    """Matches the characters that a name may begin with."""


# Compiled when first needed: every start of the command line imports this module.
@cache
def _style(name: Style) -> _Style:
    if name == "gemini":
        return _Style(
            # No `_`: the first one is the separator.
            server=re.compile(r"[a-z][a-z0-9]*\Z"),
            tool=re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*\Z"),
            separator="_",
            other=re.compile(r"[^a-z0-9]+"),
            begins=re.compile(r"[a-z_]"),
        )
    return _Style(
        # No `__`, and no `_` at the end: the first `__` is the separator.
        server=re.compile(r"_?[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*\Z"),
        tool=re.compile(r"[A-Za-z0-9_-]+\Z"),
        separator="__",
        other=re.compile(r"[^A-Za-z0-9_-]"),
        begins=re.compile(r"[A-Za-z0-9_-]"),
    )


@cache
def _hash_pattern() -> re.Pattern[str]:
    return re.compile(r"_[2-7][a-z2-7]{7}\Z")


class Naming(Struct, frozen=True):
    """The form of tool names towards clients."""

    max_length: int = 64
    style: Style = "standard"

    def plain(self, server: str, tool: str) -> str | None:
        """Return the name without a hash; None if the tool needs one."""
        style = _style(self.style)
        name = f"{server}{style.separator}{tool}"
        is_plain = (
            len(name) <= self.max_length
            and style.server.match(server)
            and style.tool.match(tool)
            and not has_hash(name)
            and name not in RESERVED
        )
        return name if is_plain else None

    def hashed(self, key: ToolKey, attempt: int = 0) -> str:
        """Return the name with a hash, another one for each `attempt`."""
        style = _style(self.style)
        server, tool = self._part(key.server, "server"), self._part(key.tool, "tool")
        room = self.max_length - _HASH_LENGTH
        parts = room - len(style.separator)
        # The server's name is cut first, down to half the room: the tool's name says more.
        tool = tool[: max(parts - len(server), (parts + 1) // 2, 1)]
        server = server[: max(0, parts - len(tool))].rstrip("_")
        readable = f"{server}{style.separator}{tool}" if server else tool
        if not style.begins.match(readable):
            readable = f"tool_{readable}"
        return f"{readable[:room].rstrip('_')}_{_hash(key, attempt)}"

    def reading(self, name: str) -> ToolKey | None:
        """Return the only tool that may have this name without a hash; None if none may."""
        server, separator, tool = name.partition(_style(self.style).separator)
        if not separator or self.plain(server, tool) != name:
            return None
        return ToolKey(ServerName(server), ToolName(tool))

    def _part(self, text: str, otherwise: str) -> str:
        if self.style == "gemini":
            text = text.lower()
        return _style(self.style).other.sub("_", text).strip("_") or otherwise


class ClientNames(Struct, frozen=True):
    """The names of all known tools, in both directions."""

    naming: Naming
    hashed: Mapping[ToolKey, str]
    """The names with a hash. All other names are unambiguous without this table."""
    keys: Mapping[str, ToolKey]
    """The tools by their names with a hash."""

    @classmethod
    def of(cls, tools: Iterable[tuple[ServerName, ToolName]], naming: Naming) -> ClientNames:
        """Return the names of `tools`, all different and independent of their order."""
        plain = naming.plain
        unnamed = {ToolKey(*tool) for tool in tools if plain(*tool) is None}
        hashed: dict[ToolKey, str] = {}
        taken: dict[str, ToolKey | None] = {}
        for attempt in range(_ROUNDS):
            rivals: dict[str, list[ToolKey]] = {}
            for key in unnamed:
                rivals.setdefault(naming.hashed(key, attempt), []).append(key)
            unnamed = set()
            for name, keys in rivals.items():
                if len(keys) == 1 and name not in taken:
                    hashed[keys[0]], taken[name] = name, keys[0]
                else:
                    taken.setdefault(name, None)
                    unnamed.update(keys)
            if not unnamed:
                break
        return cls(naming, hashed, {name: key for name, key in taken.items() if key})

    def name(self, key: ToolKey) -> str | None:
        """Return the name of a tool; None if each of its hashes collides."""
        return self.naming.plain(key.server, key.tool) or self.hashed.get(key)

    def key(self, name: str) -> ToolKey | None:
        """Return the only tool that may have this name; None if none may."""
        return self.keys.get(name) or self.naming.reading(name)


def has_hash(name: str) -> bool:
    """Return whether a name ends like a name with a hash."""
    return _hash_pattern().search(name) is not None


def _hash(key: ToolKey, attempt: int) -> str:
    """Return 37 bits of a digest as a digit and seven letters or digits."""
    text = f"{attempt}:{len(key.server)}:{key.server}:{key.tool}"
    digest = digests.digest(text.encode("utf-8", "surrogatepass"))
    return _DIGITS[digest[0] % 6] + "".join(_LETTERS[byte % 32] for byte in digest[1:8])
