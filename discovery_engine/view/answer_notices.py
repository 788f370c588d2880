"""The notices that the answers of a view have: what is missing from one, and why it is empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.rules.rule import FOR_REVIEW
from discovery_engine.rules.rule_explanation import public_decider
from discovery_engine.upstream.state import ServerState
from discovery_engine.view import notices, verdict_texts

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, Entry, ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.configured_servers import ConfiguredServers
    from discovery_engine.view.notices import Notice, RegistryOutage, Rejection


class NoticeMemo(Struct):
    """Notices that were computed from the catalog once for all answers."""

    held_back: tuple[Notice, ...] | None = None
    unusable: tuple[Notice, ...] | None = None


class AnswerNotices(Struct, frozen=True):
    settings: Settings
    catalog: Catalog
    servers: ConfiguredServers
    rejection: Rejection | None
    lost_at: float | None
    outage: RegistryOutage | None
    memo: NoticeMemo
    is_for_owner: bool = True

    def general(self) -> tuple[Notice, ...]:
        """Notices about the view as a whole."""
        rejected = (notices.rejected(self.rejection),) if self.rejection else ()
        off = () if self.settings.enabled else (notices.switched_off(),)
        none = () if self.settings.servers else (notices.no_server(self.settings),)
        return (*rejected, *self._of_registry(), *off, *none)

    def missing(self, only: ServerName | None) -> list[Notice]:
        """Notices about what the servers in scope have, and an answer has not."""
        held_back = [*self._of_registry(), *self._held_back(only)]
        # An agent that searches has no use for the few that are dropped beside others.
        unusable = [n for n in self.unusable(only) if only or not self._has_tools(n.server)]
        return [*self.servers.outages(only), *held_back, *unusable]

    def unusable(self, only: ServerName | None) -> tuple[Notice, ...]:
        """Notices about what enabled servers in scope list, and cannot be used."""
        if only:
            return tuple(_unusable_of([self.catalog.part(only)]))
        if self.memo.unusable is None:
            self.memo.unusable = tuple(_unusable_of(self.catalog.parts_with_hidden()))
        return self.memo.unusable

    def hidden(self, entries: Iterable[Entry]) -> Notice:
        """The notice about tools that fit, and are hidden."""
        return self._public(notices.hidden([self._hidden_tool(entry) for entry in entries]))

    def for_nothing(
        self, only: ServerName | None, tags: set[str], fitting: Sequence[Hit], *, is_hidden: bool
    ) -> list[Notice]:
        """Why no tool is found; servers that are missing come first.

        Args:
            only: The server that the search is limited to.
            tags: The tags that it is limited to.
            fitting: What is found without these limits.
            is_hidden: Whether a notice about hidden tools that fit was added already.
        """
        if not self.settings.servers:
            return [notices.no_server(self.settings)]
        reasons = []
        if fitting:
            first = fitting[0].entry.key.label
            reasons = [notices.filtered(len(fitting), first, only, tags)]
        parts = [self.catalog.part(only)] if only else self.catalog.parts.values()
        is_known = any(part.visible_count for part in parts)
        if unlisted := self._unlisted(only, is_none_known=not (is_known or is_hidden)):
            return [unlisted, *reasons]
        if is_hidden or (is_known and fitting):
            return reasons
        if is_known:
            return [notices.no_match(tags)]
        info = self.servers.get(only).info if only else None
        why_off = info.reason if info and info.state is ServerState.DISABLED else ""
        return [notices.no_enabled_tool(only, why_off), *reasons]

    def _unlisted(self, only: ServerName | None, *, is_none_known: bool) -> Notice | None:
        """Return a notice about the servers whose tools were never listed; None if all were."""
        servers = [self.servers.get(only)] if only else self.servers
        usable = [server for server in servers if server.is_enabled]
        unlisted = [server for server in usable if server.is_unlisted]
        if not unlisted:
            return None
        if is_none_known:
            return notices.nothing_known(only)
        down = sum(server.is_unavailable for server in unlisted)
        return notices.incomplete(len(usable), starting=len(unlisted) - down, unavailable=down)

    def _of_registry(self) -> tuple[Notice, ...]:
        lost = () if self.lost_at is None else (notices.lost(self.lost_at),)
        outage = (self._public(notices.registry_outage(self.outage)),) if self.outage else ()
        return (*lost, *outage)

    def _held_back(self, only: ServerName | None) -> tuple[Notice, ...]:
        """Notices about withheld tools of the servers in scope."""
        if only:
            return tuple(_held_back_of([self.catalog.part(only)]))
        if self.memo.held_back is None:
            self.memo.held_back = tuple(_held_back_of(self.catalog.parts_with_hidden()))
        return self.memo.held_back

    def _has_tools(self, server: ServerName | None) -> bool:
        return server is not None and bool(self.catalog.part(server).entries)

    def _public(self, notice: Notice) -> Notice:
        """A notice as its readers may have it: what waits for the registry is of all servers."""
        return notice if self.is_for_owner else replace(notice, to_owner="")

    def _hidden_tool(self, entry: Entry) -> notices.HiddenTool:
        place = verdict_texts.place(self.settings, entry)
        return notices.HiddenTool(entry.key.label, public_decider(entry.verdict), place)


def _unusable_of(parts: Iterable[ServerPart]) -> Iterator[Notice]:
    for part in parts:
        if part.dropped and part.verdict.enabled:
            yield notices.unusable(part.server, len(part.dropped))


def _held_back_of(parts: Iterable[ServerPart]) -> Iterator[Notice]:
    for part in parts:
        waiting = part.held_back(FOR_REVIEW), part.offerings_held_back(FOR_REVIEW)
        if any(waiting):
            yield notices.review(part.server, *waiting)
        unpinned = part.held_back({"unpinned"}), part.offerings_held_back({"unpinned"})
        if any(unpinned):
            yield notices.unpinned(part.server, *unpinned)
