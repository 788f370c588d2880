"""One world to answer from: the settings, a catalog snapshot, and its searcher.

A view is immutable and never waits: every read verb of the engine, the server and the command
line is answered by the view of the moment. What an agent may see is decided in one place
(`is_visible`), and every answer says what it cannot speak for (`Notice`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.errors import (
    ServerDisabledError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
)
from discovery_engine.nearest import nearest
from discovery_engine.rules import describe
from discovery_engine.tools import ServerName, ToolName

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.search.searcher import Hit, Searcher

_SEPARATORS = (":", "__", ".")  # between server and tool in one word, the usual one first
_HOST_PREFIX = re.compile(r"^mcp__", re.IGNORECASE)  # how some hosts name the tools of a server


class ServerStatus(StrEnum):
    PENDING = "pending"
    """Its tools have not been asked for yet."""
    STARTING = "starting"
    READY = "ready"
    """A session is open."""
    IDLE = "idle"
    """Its tools are known; the next call connects."""
    FAILING = "failing"
    NEEDS_CONFIG = "needs_config"
    NEEDS_AUTH = "needs_auth"
    DISABLED = "disabled"


_STATUS_OF_FAILURE = {
    "SERVER_NEEDS_CONFIG": ServerStatus.NEEDS_CONFIG,
    "SERVER_NEEDS_AUTH": ServerStatus.NEEDS_AUTH,
}


@dataclass(frozen=True, slots=True)
class ServerSummary:
    name: ServerName
    description: str
    status: ServerStatus
    reason: str
    """Why the status is what it is, where that is not plain; may be empty."""
    hint: str
    tool_count: int
    enabled_count: int
    tags: tuple[str, ...]
    listed_at: float | None
    """Unix time in seconds at which its tools were last listed; None for never."""
    is_stale: bool
    """The newest attempt to list failed: the tools are the last known ones."""


class NoticeKind(StrEnum):
    UNAVAILABLE = "unavailable"
    """A server cannot be asked; its tools are missing, or are the last known ones."""
    LOADING = "loading"
    """A server's tools are not known yet."""
    HIDDEN = "hidden"
    """Tools that match are disabled."""
    NO_MATCH = "no_match"
    EMPTY = "empty"
    """There is nothing to answer from: no server, or none with an enabled tool."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What an answer cannot speak for, and what to do about it."""

    kind: NoticeKind
    message: str
    server: ServerName | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    query: str
    hits: tuple[Hit, ...]
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolList:
    server: ServerName
    entries: tuple[Entry, ...]
    notices: tuple[Notice, ...] = ()


def is_visible(entry: Entry) -> bool:
    """Whether an agent may find, inspect and execute a tool. Nothing else decides this."""
    return entry.verdict.enabled


@dataclass(frozen=True)
class View:
    settings: Settings
    catalog: Catalog
    searcher: Searcher
    statuses: Mapping[ServerName, ServerStatus] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Live statuses (`starting`, `ready`) where there is one; the rest follows from the catalog."""

    def servers(self) -> tuple[ServerSummary, ...]:
        """Every configured server, in the order of names."""
        ordered = sorted(self.settings.servers, key=lambda server: server.name)
        return tuple(self._summary(server) for server in ordered)

    def server(self, name: str) -> ServerSettings:
        """The settings of a server, by its exact name or by a unique one in another case.

        Raises:
            ServerNotFoundError: With the nearest names.
        """
        for server in self.settings.servers:
            if server.name == name:
                return server
        folded = [s for s in self.settings.servers if s.name.casefold() == name.casefold()]
        if len(folded) == 1:
            return folded[0]
        raise ServerNotFoundError(name, nearest(name, [s.name for s in self.settings.servers]))

    def search(
        self,
        query: str,
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        limit: int | None = None,
        include_disabled: bool = False,
    ) -> SearchAnswer:
        """The tools that fit a query best, the best first.

        Args:
            query: Words, a tool's name, or both.
            server: Only this server's tools.
            tags: Only tools that carry all of these.
            limit: The most hits; the configured `search.limit` if None.
            include_disabled: Also tools that a rule disables; never for agents.

        Raises:
            ServerNotFoundError: If `server` is not configured.
        """
        only = self.server(server).name if server else None
        wanted = set(tags)

        def in_scope(entry: Entry) -> bool:
            return (only is None or entry.tool.server == only) and wanted <= set(entry.verdict.tags)

        def accepts(entry: Entry) -> bool:
            return in_scope(entry) and (include_disabled or is_visible(entry))

        def is_hidden(entry: Entry) -> bool:
            return in_scope(entry) and not accepts(entry)

        limit = limit if limit is not None else self.settings.search.limit
        hits = self.searcher.search(query, limit=limit, accepts=accepts)
        notices = [*self._outages(only)]
        if not hits:
            hidden = self.searcher.search(query, limit=len(self.catalog), accepts=is_hidden)
            notices = [*self._reasons_for_nothing(only, wanted, hidden), *notices]
        return SearchAnswer(query, hits, tuple(notices))

    def list_tools(self, server: str, *, include_disabled: bool = False) -> ToolList:
        """A server's tools, in the order of their names.

        Raises:
            ServerNotFoundError: If the server is not configured.
            ServerDisabledError: If it is switched off, unless `include_disabled`.
        """
        name = self.server(server).name
        part = self._part(name)
        if not include_disabled:
            self._require_enabled(name)
        entries = tuple(e for e in part.entries if include_disabled or is_visible(e))
        notices = [*self._outages(name)]
        if not entries and part.entries:
            notices.append(_hidden_notice(part.entries, self))
        return ToolList(name, entries, tuple(notices))

    def find(self, server: str | None, tool: str) -> Entry:
        """The tool of that name, visible or not.

        Without a server, `tool` may name it too: `github:create_issue`, `github__create_issue`,
        `mcp__github__create_issue`, or a tool's name that only one server has.

        Raises:
            ServerNotFoundError: If `server` is given and not configured.
            ToolNotFoundError: With the nearest names.
            ToolAmbiguousError: If several servers have that tool.
        """
        if server is None:
            return self._find_anywhere(tool)
        name = self.server(server).name
        own = self._own_name(name, tool)
        if found := self.catalog.get(name, own):
            return found
        known = [e.tool.name for e in self._part(name).entries if is_visible(e)]
        raise ToolNotFoundError(name, tool, nearest(own, known))

    def details(self, server: str | None, tool: str) -> Entry:
        """The tool of that name, if it may be seen.

        Raises:
            NotFoundError: As `find`.
            ToolDisabledError: If a rule disables it; the rule is named.
            ServerDisabledError: If its server is switched off.
        """
        entry = self.find(server, tool)
        if is_visible(entry):
            return entry
        self._require_enabled(entry.tool.server)
        raise ToolDisabledError(entry.tool.server, entry.tool.name, self.reason(entry))

    def reason(self, entry: Entry) -> str:
        """Why a tool has its verdict, in a few words."""
        return describe(entry.verdict, self.settings.tool_rules)

    def is_known(self, name: ServerName) -> bool:
        """Whether a server's tools have ever been listed, as it is reached now."""
        part = self.catalog.parts.get(name)
        return part is not None and part.listed_at is not None

    def _part(self, name: ServerName) -> ServerPart:
        return self.catalog.parts.get(name) or ServerPart(name)

    def _summary(self, server: ServerSettings) -> ServerSummary:
        part = self._part(server.name)
        status, reason, hint = self._standing(server)
        return ServerSummary(
            name=server.name,
            description=server.description or _first_line(part.instructions),
            status=status,
            reason=reason,
            hint=hint,
            tool_count=len(part.entries),
            enabled_count=sum(map(is_visible, part.entries)),
            tags=part.verdict.tags or server.tags,
            listed_at=part.listed_at,
            is_stale=part.is_stale,
        )

    def _standing(self, server: ServerSettings) -> tuple[ServerStatus, str, str]:
        """Status, reason, hint."""
        part = self._part(server.name)
        if server.problem:
            return ServerStatus.NEEDS_CONFIG, server.problem.message, server.problem.hint
        if not server.enabled:
            return ServerStatus.DISABLED, "enabled: false", ""
        if not part.verdict.enabled:
            return ServerStatus.DISABLED, describe(part.verdict, self.settings.server_rules), ""
        if live := self.statuses.get(server.name):
            return live, "", ""
        if failure := part.failure:
            status = _STATUS_OF_FAILURE.get(failure.code, ServerStatus.FAILING)
            return status, failure.message, failure.hint
        return (ServerStatus.IDLE if part.listed_at else ServerStatus.PENDING), "", ""

    def _require_enabled(self, name: ServerName) -> None:
        status, reason, _ = self._standing(self.server(name))
        if status is ServerStatus.DISABLED:
            raise ServerDisabledError(name, reason)

    def _find_anywhere(self, word: str) -> Entry:
        for server, tool in self._readings(word):
            if found := self.catalog.get(server, tool):
                return found
        found = self.catalog.named(ToolName(word))
        visible = tuple(filter(is_visible, found)) or found
        if len(visible) == 1:
            return visible[0]
        if visible:
            raise ToolAmbiguousError(word, [str(entry.key) for entry in visible])
        raise self._nothing_named(word)

    def _nothing_named(self, word: str) -> ToolNotFoundError | ServerNotFoundError:
        for server, tool in self._readings(word):
            known = [e.tool.name for e in self._part(server).entries if is_visible(e)]
            return ToolNotFoundError(server, tool, nearest(tool, known))
        server_part, colon, _ = word.partition(":")
        if colon:
            return ServerNotFoundError(
                server_part, nearest(server_part, [s.name for s in self.settings.servers])
            )
        visible = filter(is_visible, self.catalog)
        by_name = {entry.tool.name: str(entry.key) for entry in visible}
        return ToolNotFoundError(
            None, word, [by_name[ToolName(n)] for n in nearest(word, list(by_name))]
        )

    def _readings(self, word: str) -> list[tuple[ServerName, ToolName]]:
        """The ways to read one word as server and tool; the longest server name first."""
        spellings = dict.fromkeys((word, _HOST_PREFIX.sub("", word)))
        names = sorted((s.name for s in self.settings.servers), key=len, reverse=True)
        return [
            (name, ToolName(spelling[len(name) + len(separator) :]))
            for spelling in spellings
            for name in names
            for separator in _SEPARATORS
            if spelling.casefold().startswith(name.casefold() + separator)
        ]

    def _own_name(self, server: ServerName, tool: str) -> ToolName:
        """A tool's name without its server's, which callers often repeat."""
        if self.catalog.get(server, ToolName(tool)):
            return ToolName(tool)
        readings = (own for name, own in self._readings(tool) if name == server)
        return next(readings, ToolName(tool))

    def _outages(self, only: ServerName | None) -> list[Notice]:
        """The servers in question that cannot be spoken for."""
        asked = [s for s in self.settings.servers if only in (None, s.name)]
        notices = (self._outage(server) for server in sorted(asked, key=lambda s: s.name))
        return [notice for notice in notices if notice]

    def _outage(self, server: ServerSettings) -> Notice | None:
        status, reason, hint = self._standing(server)
        name = server.name
        if status in (ServerStatus.PENDING, ServerStatus.STARTING) and not self.is_known(name):
            message = f"{name}: its tools are not known yet; ask again in a few seconds"
            return Notice(NoticeKind.LOADING, message, name)
        if status not in (
            ServerStatus.FAILING,
            ServerStatus.NEEDS_CONFIG,
            ServerStatus.NEEDS_AUTH,
        ):
            return None
        known = "; its last known tools are used" if self._part(name).is_stale else ""
        advice = f" ({hint})" if hint else ""
        return Notice(
            NoticeKind.UNAVAILABLE, f"{name}: {status.value}: {reason}{known}{advice}", name
        )

    def _reasons_for_nothing(
        self, only: ServerName | None, tags: set[str], hidden: Sequence[Hit]
    ) -> list[Notice]:
        if not self.settings.servers:
            return [Notice(NoticeKind.EMPTY, "no server is configured; `discovery init` helps")]
        if hidden:
            return [_hidden_notice([hit.entry for hit in hidden], self)]
        asked = [e for e in self.catalog if only in (None, e.tool.server)]
        if not any(map(is_visible, asked)):
            place = f"server {only!r} has" if only else "there is"
            return [Notice(NoticeKind.EMPTY, f"{place} no enabled tool")]
        filters = f" among the tools tagged {', '.join(sorted(tags))}" if tags else ""
        message = f"no tool matches{filters}; try other words, or list_tools of a likely server"
        return [Notice(NoticeKind.NO_MATCH, message)]


def _hidden_notice(entries: Sequence[Entry], view: View) -> Notice:
    """How many are hidden and by what; never their names."""
    by_reason = Counter(view.reason(entry) for entry in entries)
    why = "; ".join(f"{count} by {reason}" for reason, count in by_reason.most_common(3))
    count = len(entries)
    noun = "tool that matches is" if count == 1 else "tools that match are"
    return Notice(NoticeKind.HIDDEN, f"{count} {noun} disabled: {why}")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
