"""The names of tools towards clients: `github__create_issue`.

A host gives the names of all its tools to a model, in one flat list and in a narrow alphabet. A
name is a pure function of the tool's server and name, so it is the same after a restart and
whatever else is known or visible.

    github:create_issue     github__create_issue
    github:get/user         github__get_user_4k3q6yvm       not in the alphabet: a hash follows

A name without a hash can be read in one way only; whatever could be read otherwise has a hash. Two
tools whose hashes are equal lose that name, both: no tool can take over a name that a client
already uses for another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from discovery_engine._util import digests
from discovery_engine.tools.meta_tools import ALL_META_TOOLS, POOL_SEARCHES
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

Style: TypeAlias = Literal["standard", "gemini"]

RESERVED = frozenset({*ALL_META_TOOLS, *POOL_SEARCHES})
"""Names of meta-tools, which no tool of a server gets."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_DIGITS = "234567"
_HASH_LENGTH = 9
"""With its underscore. The digit tells it from the words that end the names of tools."""
_ROUNDS = 16
"""Hashes that are tried for one tool; to use all up, 16 collisions must be found one by one."""


class _Style(NamedTuple):
    server: re.Pattern[str]
    """Servers whose names are read in one way in front of the separator."""
    tool: re.Pattern[str]
    """Tools whose names need no change."""
    separator: str
    other: re.Pattern[str]
    """The characters that are replaced by an underscore."""
    begins: re.Pattern[str]
    """The pattern that the name must begin with."""


# Compiled when first needed: every start of the command line imports this module.
@cache
def _style(name: Style) -> _Style:
    if name == "gemini":
        return _Style(
            # Without `_`: the first one is the separator.
            server=re.compile(r"[a-z][a-z0-9]*\Z"),
            tool=re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*\Z"),
            separator="_",
            other=re.compile(r"[^a-z0-9]+"),
            begins=re.compile(r"[a-z_]"),
        )
    return _Style(
        # Without `__`, and not with `_` at the end: the first `__` is the separator.
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
    """How tools are named towards clients."""

    max_length: int = 64
    style: Style = "standard"

    def plain(self, server: str, tool: str) -> str | None:
        """The name without a hash; None if it has one."""
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
        """The name with a hash: the next one after so many collisions."""
        style = _style(self.style)
        server, tool = self._part(key.server, "server"), self._part(key.tool, "tool")
        room = self.max_length - _HASH_LENGTH
        parts = room - len(style.separator)
        # What is cut is the server, down to half: the tool's name says more.
        tool = tool[: max(parts - len(server), (parts + 1) // 2, 1)]
        server = server[: max(0, parts - len(tool))].rstrip("_")
        readable = f"{server}{style.separator}{tool}" if server else tool
        if not style.begins.match(readable):
            readable = f"tool_{readable}"
        return f"{readable[:room].rstrip('_')}_{_hash(key, attempt)}"

    def reading(self, name: str) -> ToolKey | None:
        """The only tool that may have a name without a hash."""
        server, separator, tool = name.partition(_style(self.style).separator)
        if not separator or self.plain(server, tool) != name:
            return None
        return ToolKey(ServerName(server), ToolName(tool))

    def _part(self, text: str, otherwise: str) -> str:
        if self.style == "gemini":
            text = text.lower()
        return _style(self.style).other.sub("_", text).strip("_") or otherwise


class ClientNames(Struct, frozen=True):
    """The names of all known tools, and the tools of these names."""

    naming: Naming
    hashed: Mapping[ToolKey, str]
    """The names that have a hash. No other name can be that of two tools."""
    keys: Mapping[str, ToolKey]
    """The tools of these names."""

    @classmethod
    def of(cls, tools: Iterable[tuple[ServerName, ToolName]], naming: Naming) -> ClientNames:
        """The names of `tools`, all different and independent of their order."""
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
        """The name of a tool; None for one that collides with others however it is hashed."""
        return self.naming.plain(key.server, key.tool) or self.hashed.get(key)

    def key(self, name: str) -> ToolKey | None:
        """The only tool that may have that name; None if none can."""
        return self.keys.get(name) or self.naming.reading(name)


def has_hash(name: str) -> bool:
    """Return whether a name ends like a name with a hash."""
    return _hash_pattern().search(name) is not None


def _hash(key: ToolKey, attempt: int) -> str:
    """37 bits of a digest: a digit, then seven letters or digits."""
    text = f"{attempt}:{len(key.server)}:{key.server}:{key.tool}"
    digest = digests.digest(text.encode("utf-8", "surrogatepass"))
    return _DIGITS[digest[0] % 6] + "".join(_LETTERS[byte % 32] for byte in digest[1:8])
