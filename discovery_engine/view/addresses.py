"""Resolves the names of servers and tools, in all common spellings.

github:create_issue          the form of this project
github__create_issue         a common one of gateways
github.create_issue
mcp__github__create_issue    as some hosts show it; behind a gateway mcp__gateway__github__…
create_issue                 if only one server has it
github__get_user_4k3q6yvm    the name towards clients, where it has a hash
GitHub/createIssue           in any case, with any separators, if only one visible tool is spelt so

Another unknown name is an error with the nearest names; invisible tools are never suggested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.suggestions import nearest
from discovery_engine._util.text import folded
from discovery_engine.catalog import Catalog, Entry
from discovery_engine.errors import (
    NotFoundError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolNotFoundError,
)
from discovery_engine.tools.client_names import ClientNames, Naming, has_hash
from discovery_engine.tools.limits import require_name
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

_SEPARATOR = lazy_pattern(r"(?=(:|__|\.))")  # looks ahead, so that one may begin within another
_SUGGESTED = 5  # addresses
_HOST_PREFIX = lazy_pattern(r"^mcp__", re.IGNORECASE)
_GATEWAY_PREFIX = lazy_pattern(r"^mcp__.+?__", re.IGNORECASE)


class AddressBook(Struct, frozen=True, dict=True):
    catalog: Catalog
    servers: Collection[ServerName]
    """All configured servers, listed or not."""
    place: Callable[[Entry], str]
    """Describes what hides a tool, for the owner."""
    naming: Naming = Naming()
    """The naming of tools towards clients."""

    def server(self, name: str) -> ServerName:
        """The server of exactly that name, or the only one of it in another spelling.

        Raises:
            InputTooLongError: If it is longer than any name.
            ServerNotFoundError: With the nearest names.
        """
        require_name("name of a server", name)
        if name in self.servers:
            return ServerName(name)
        for namesakes in (self._folded.get(name.casefold()), self._spelt_servers.get(folded(name))):
            if namesakes and len(namesakes) == 1:
                return namesakes[0]
        raise ServerNotFoundError(name, nearest(name, self.servers))

    def servers_in(self, word: str) -> list[ServerName]:
        """The servers that `word` may name or begin with; none if it is only a tool name."""
        require_name("name", word)
        begun = [server for server, _ in self._readings(word)]
        whole = self._folded.get(word.casefold(), ())
        return list(dict.fromkeys([*whole, *begun]))

    def tool(self, server: str | None, name: str) -> Entry:
        """The tool of that name, visible or not; without a server, `name` may hold it too.

        Blanks around it mean nothing, unless a tool is called so.

        Raises:
            ServerNotFoundError: If `server` is given and not configured.
            ToolNotFoundError: With the nearest names.
            ToolAmbiguousError: If several servers have that tool.
        """
        require_name("name of a tool", name)
        if (bare := name.strip()) != name:
            with suppress(NotFoundError):
                return self._tool(server, name)
        return self._tool(server, bare)

    def _tool(self, server: str | None, name: str) -> Entry:
        if server is None:
            return self._meant(name)
        of = self.server(server)
        own = self._own_name(of, name)
        if entry := self.catalog.get(of, own):
            return entry
        meant = self._spelt_in(of, name)
        if not meant and (":" in name or "__" in name):  # it names another server itself
            meant = self._spelt_as_read(name)
            meant += [e for other in meant for e in self._spelt_in(of, other.tool.name)]
        return self._only(name, meant, otherwise=lambda: self._not_found(of, name, own))

    def by_client_name(self, name: str) -> Entry | None:
        """The tool that clients know by exactly this name, visible or not."""
        # The table is made of all tools, and most words are no name of it.
        key = self.naming.reading(name)
        if key is None and has_hash(name):
            key = self.client_names.keys.get(name)
        return self.catalog.get(key.server, key.tool) if key else None

    def client_name(self, key: ToolKey) -> str | None:
        """The name of a tool towards clients; None if it has none."""
        return self.naming.plain(key.server, key.tool) or self.client_names.name(key)

    @cached_property
    def client_names(self) -> ClientNames:
        """The names of all tools towards clients, visible or not, so that hiding renames none."""
        tools = ((entry.tool.server, entry.tool.name) for entry in self.catalog)
        return ClientNames.of(tools, self.naming)

    def _meant(self, word: str) -> Entry:
        if named := self._named(word):
            return named
        namesakes = self.catalog.named(ToolName(word))
        meant = tuple(entry for entry in namesakes if entry.is_visible) or namesakes
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise ToolAmbiguousError(word, [str(entry.key) for entry in meant])
        # A server that is named stays the only one: otherwise `a:now` might call `an:ow`.
        is_read = bool(self._readings(word))
        if not is_read and (named := self._named(_GATEWAY_PREFIX.sub("", word))):
            return named
        spelt = self._spelt_as_read(word) if is_read else self._spelt_anywhere(word)
        return self._only(word, spelt, otherwise=lambda: self._nothing_named(word))

    def _only(
        self, word: str, spelt: Iterable[Entry], *, otherwise: Callable[[], NotFoundError]
    ) -> Entry:
        """The only tool that is spelt so; raises the error `otherwise` if there is none."""
        entries = {entry.key: entry for entry in spelt}
        if len(entries) == 1:
            return entries.popitem()[1]
        raise ToolAmbiguousError(word, list(map(str, entries))) if entries else otherwise()

    def _spelt_as_read(self, word: str) -> list[Entry]:
        return [e for server, tool in self._readings(word) for e in self._spelt_in(server, tool)]

    def _spelt_anywhere(self, word: str) -> list[Entry]:
        spelt = folded(word)
        return [e for name in (spelt, spelt.removeprefix("mcp")) for e in self._spelt.get(name, ())]

    def _spelt_in(self, server: ServerName, name: str) -> list[Entry]:
        """The visible tools of a server that are spelt so, with or without its name before them."""
        spelt = folded(name)
        names = {spelt, spelt.removeprefix(folded(server))}
        return [e for e in self.catalog.part(server).iter_visible() if folded(e.tool.name) in names]

    def _named(self, word: str) -> Entry | None:
        """The tool that a word names together with its server.

        Only `server:tool` is unambiguous. If another spelling fits two tools, neither is chosen:
        otherwise a server could name a tool so that it gets the calls of another one.
        """
        entries = {
            entry.key: entry
            for server, tool in self._readings(word)
            if (entry := self.catalog.get(server, tool))
        }
        if entry := self.by_client_name(word):
            entries[entry.key] = entry
        if len(entries) < 2:  # noqa: PLR2004 - one meaning
            return next(iter(entries.values()), None)
        if exact := next(
            (candidate for key, candidate in entries.items() if str(key) == word), None
        ):
            return exact
        raise ToolAmbiguousError(word, list(map(str, entries)))

    def _nothing_named(self, word: str) -> NotFoundError:
        if readings := self._readings(word):
            server, tool = readings[0]
            return self._not_found(server, tool, tool)
        name, colon, _ = word.partition(":")
        if colon:
            return ServerNotFoundError(name, nearest(name, self.servers))
        keys: dict[str, list[ToolKey]] = {}
        for entry in self.catalog.visible:
            keys.setdefault(entry.tool.name, []).append(entry.key)
        folded_word = folded(word)
        near = [key for name in nearest(word, keys) for key in keys[name]]
        near.sort(key=lambda key: not folded_word.startswith(folded(key.server)))
        suggestions = list(map(str, near[:_SUGGESTED]))
        return ToolNotFoundError(None, word, suggestions, self._hidden(word, self.catalog))

    def _not_found(self, server: ServerName, name: str, tool: str) -> ToolNotFoundError:
        part = self.catalog.part(server)
        near = nearest(tool, [entry.tool.name for entry in part.visible])
        removed = next((removal.at for removal in part.removed if removal.name == tool), None)
        hidden = self._hidden(tool, part.entries)
        return ToolNotFoundError(server, name, near, hidden, removed_at=removed)

    def _hidden(self, word: str, entries: Iterable[Entry]) -> list[str]:
        """The nearest hidden tools, each with what hides it."""
        hidden_entries = {entry.tool.name: entry for entry in entries if not entry.is_visible}
        near = (hidden_entries[ToolName(name)] for name in nearest(word, hidden_entries))
        return [f"{entry.key.label} ({self.place(entry)})" for entry in near]

    def _own_name(self, server: ServerName, name: str) -> ToolName:
        """A tool's name without its server's, which callers often repeat."""
        if self.catalog.get(server, ToolName(name)):
            return ToolName(name)
        entry = self.by_client_name(name)
        if entry and entry.tool.server == server:
            return entry.tool.name
        own = (tool for read, tool in self._readings(name) if read == server)
        return next(own, ToolName(name))

    def _readings(self, word: str) -> list[tuple[ServerName, ToolName]]:
        """Return every way to read `word` as a server and a tool; the longest server name first.

        A server's name is read in any case; the tool's is left as it is.
        """
        spellings = dict.fromkeys((word, _HOST_PREFIX.sub("", word)))
        return [
            reading
            for spelling in spellings
            for reading in sorted(self._splits(spelling), key=lambda split: -len(split[0]))
        ]

    def _splits(self, word: str) -> Iterator[tuple[ServerName, ToolName]]:
        """`word` at each separator that stands behind a server's name."""
        for separator in _SEPARATOR.finditer(word):
            begins, ends = separator.span(1)
            if begins > self._longest:
                return
            for server in self._folded.get(word[:begins].casefold(), ()):
                yield server, ToolName(word[ends:])

    @cached_property
    def _spelt(self) -> Mapping[str, list[Entry]]:
        """The visible tools by their names, and by these behind their servers' names."""
        spelt: dict[str, list[Entry]] = {}
        for part in self.catalog.parts.values():
            server = folded(part.server)
            for entry in part.iter_visible():
                tool = folded(entry.tool.name)
                spelt.setdefault(tool, []).append(entry)
                spelt.setdefault(server + tool, []).append(entry)
        spelt.pop("", None)
        return spelt

    @cached_property
    def _spelt_servers(self) -> Mapping[str, list[ServerName]]:
        spelt: dict[str, list[ServerName]] = {}
        for server in self.servers:
            spelt.setdefault(folded(server), []).append(server)
        spelt.pop("", None)
        return spelt

    @cached_property
    def _folded(self) -> Mapping[str, list[ServerName]]:
        """The servers by case-folded name, so that no call scans all of them."""
        folded: dict[str, list[ServerName]] = {}
        for server in self.servers:
            folded.setdefault(server.casefold(), []).append(server)
        return folded

    @cached_property
    def _longest(self) -> int:
        """Characters of the longest name; case folding never shortens a name."""
        return max(map(len, self._folded), default=0)
