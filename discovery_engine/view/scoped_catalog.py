"""The part of a catalog that a scope shows: for each server, which of its tools.

It holds a byte for each tool, resource, template and prompt of servers that are shown in part, and
nothing for those shown whole. Their parts are made when they are read: kept for each of ten views,
they would take half as much memory as the catalog with its index.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import compress
from typing import TypeAlias

from msgspec.structs import replace

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.tools.model import ServerName, ToolName

Flags: TypeAlias = bytes
"""A byte for each tool of a server, then for each of its other offerings: 1 if it is shown. Tools
that are unusable or gone are not."""

_MAX_CACHED_PARTS = 8  # parts: what is asked of one server is asked several times


class ScopedCatalog(Catalog, frozen=True, kw_only=True):
    whole: Catalog
    """The catalog with all that is known; no scope of it."""
    shown: Mapping[ServerName, Flags | None]
    """By server, in the order of the catalog; None if all of it is shown."""

    @classmethod
    def part_of(cls, whole: Catalog, shown: Mapping[ServerName, Flags | None]) -> ScopedCatalog:
        parts = ScopedParts(whole.parts, shown)
        return cls(whole.revision, parts, whole=whole, shown=shown)

    def without_empty(self) -> ScopedCatalog:
        """The same without the servers of which nothing is shown."""
        remainder = {
            server: flags
            for server, flags in self.shown.items()
            if (any(flags) if flags is not None else _offers(self.whole.part(server)))
        }
        return self if len(remainder) == len(self.shown) else self.part_of(self.whole, remainder)

    def get(self, server: ServerName, tool: ToolName) -> Entry | None:
        if server not in self.shown:
            return None
        if (flags := self.shown[server]) is None:
            return self.whole.get(server, tool)
        entries = self.whole.part(server).entries
        at = bisect_left(entries, tool, key=_name)
        is_shown = at < len(entries) and entries[at].tool.name == tool and flags[at]
        return entries[at] if is_shown else None

    def named(self, tool: ToolName) -> tuple[Entry, ...]:
        return tuple(e for e in self.whole.named(tool) if self.get(e.tool.server, tool))

    def parts_with_hidden(self) -> Iterator[ServerPart]:
        names = (part.server for part in self.whole.parts_with_hidden())
        return (part for name in names if (part := self.parts.get(name)) and part.is_any_hidden)

    def parts_unlike(self, other: Catalog) -> Iterator[ServerPart]:
        if not isinstance(other, ScopedCatalog):
            return super().parts_unlike(other)
        parts, other_flags = other.whole.parts, other.shown
        return (
            self.parts[server]
            for server, flags in self.shown.items()
            if self.whole.parts[server] is not parts.get(server)
            or server not in other_flags
            or other_flags[server] != flags
        )

    def tools_shown(self) -> dict[ServerName, bytes | None]:
        """By server, a byte for each tool; None if all are shown."""
        return {
            server: flags and flags[: len(self.whole.part(server).entries)]
            for server, flags in self.shown.items()
        }


class ScopedParts(Mapping[ServerName, ServerPart]):
    """The parts of the servers that are shown."""

    def __init__(
        self,
        whole: Mapping[ServerName, ServerPart],
        shown: Mapping[ServerName, Flags | None],
    ) -> None:
        self._whole = whole
        self._shown = shown
        self._kept: dict[ServerName, ServerPart] = {}

    def __getitem__(self, server: ServerName) -> ServerPart:
        if (flags := self._shown[server]) is None:
            return self._whole[server]
        part = self._kept.get(server)
        if part is None:
            part = _reduced(self._whole[server], flags)
            if len(self._kept) == _MAX_CACHED_PARTS:
                self._kept.clear()
            self._kept[server] = part
        return part

    def __iter__(self) -> Iterator[ServerName]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)


def _reduced(part: ServerPart, flags: Flags) -> ServerPart:
    tools, others = flags[: len(part.entries)], flags[len(part.entries) :]
    offerings = part.offerings
    if not all(others):
        offerings = tuple(compress(offerings, others))
    entries = tuple(compress(part.entries, tools))
    remainder = replace(part, entries=entries, offerings=offerings, dropped=(), removed=())
    return replace(remainder, instructions=scoped_instructions(part, remainder))


def _offers(part: ServerPart) -> bool:
    return bool(part.entries or part.offerings)


def _name(entry: Entry) -> ToolName:
    return entry.tool.name


# A server's instructions for those who see a part of what it offers.

_WORD = re.compile(r"[\w.:/{}+*%~@-]+")
_ENDS = ".:/-"


def scoped_instructions(whole: ServerPart, shown: ServerPart) -> str:
    """Return the instructions of `whole`; empty if they name something that is not in `shown`.

    They are one text of a server, of which no part can be left out.
    """
    if not whole.instructions:
        return ""
    tokens = _WORD.findall(whole.instructions)
    words = {form for word in tokens for form in (word, word.strip(_ENDS))}
    hidden = set(_names(whole)) - set(_names(shown))
    return whole.instructions if words.isdisjoint(hidden) else ""


def _names(part: ServerPart) -> Iterator[str]:
    yield from (tool.name for tool in part.dropped)
    yield from (tool.name for tool in part.removed)
    for entry in part.entries:
        yield entry.tool.name
        yield entry.tool.given_name
    for offering_entry in part.offerings:
        yield offering_entry.offering.identifier
