"""Access to resources, templates and prompts: what of them a view lists, finds and lets through."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.catalog import Catalog, OfferingEntry
from discovery_engine.errors import PromptDisabledError, ResourceDisabledError, concerning
from discovery_engine.rules.rule_explanation import public_decider
from discovery_engine.tools import limits
from discovery_engine.view import verdict_texts
from discovery_engine.view.notices import Notice
from discovery_engine.view.search_answers import OfferingHit, SearchKind

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.tools.offering import OfferingKind
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.answer_notices import AnswerNotices
    from discovery_engine.view.configured_servers import ConfiguredServers
    from discovery_engine.view.offering_addresses import OfferingBook, ResourceTarget


class OfferingList(Struct, frozen=True):
    """The resources, the templates or the prompts of servers, and notices about what is missing."""

    entries: tuple[OfferingEntry, ...]
    notices: tuple[Notice, ...] = ()


class OfferingAccess(Struct, frozen=True):
    settings: Settings
    catalog: Catalog
    addresses: AddressBook
    book: OfferingBook
    servers: ConfiguredServers
    notices: AnswerNotices

    def search(
        self,
        query: str,
        kinds: Collection[SearchKind],
        *,
        server: str | None,
        tags: Sequence[str],
        any_tag: bool,
        limit: int | None,
    ) -> tuple[OfferingHit, ...]:
        """Search resources, templates and prompts; see `View.search_offerings`."""
        limits.require_query(query)
        limits.require_names("tag", tags, most=limits.TAGS)
        only = self.addresses.server(server) if server else None

        def accepts(entry: OfferingEntry) -> bool:
            offering = entry.offering
            is_in_scope = only in (None, offering.server) and offering.subject in kinds
            has_wanted = entry.verdict.carries(tags, any_tag=any_tag)
            return entry.is_visible and is_in_scope and has_wanted

        settings = self.settings.search
        hits = self.book.index.search(
            query,
            accepts,
            limit=limit if limit is not None else settings.limit,
            least=settings.min_confidence,
        )
        address = self.book.address
        return tuple(OfferingHit(e, address(e.offering), relevance) for e, relevance in hits)

    def resource(self, server: str | None, uri: str) -> ResourceTarget:
        """Return the target of a URI; see `View.resource`."""
        target = self.book.resource(server, uri)
        self._require_visible(target.entry, target.uri, ResourceDisabledError)
        return target

    def template(self, server: str | None, address: str) -> OfferingEntry | None:
        """Return the resource template of that address; see `View.template`."""
        entry = self.book.template(server, address)
        if entry:
            self._require_visible(entry, entry.offering.identifier, ResourceDisabledError)
        return entry

    def prompt(self, server: str | None, name: str) -> OfferingEntry:
        """Return the prompt of that name; see `View.prompt`."""
        entry = self.book.prompt(server, name)
        self._require_visible(entry, entry.offering.identifier, PromptDisabledError)
        return entry

    def of_kind(
        self, kind: OfferingKind, server: str | None, *, include_disabled: bool
    ) -> OfferingList:
        """List the resources, the templates or the prompts; see `View.list_offerings`."""
        only = None if server is None else self.addresses.server(server)
        if only and not include_disabled:
            self.servers.get(only).require_enabled()
        entries = self.book.visible(kind, only)
        if include_disabled:
            parts = [self.catalog.part(only)] if only else self.catalog.parts.values()
            entries = tuple(
                entry
                for part in parts
                for entry in part.of_kind(kind)
                if entry.is_visible or not entry.is_withheld
            )
        return OfferingList(entries, tuple(self.notices.missing(only)))

    def _require_visible(
        self,
        entry: OfferingEntry,
        name: str,
        error: type[ResourceDisabledError | PromptDisabledError],
    ) -> None:
        server, verdict = entry.offering.server, entry.verdict
        with concerning(server, name):
            self.servers.find(server).require_enabled()
        if entry.is_visible:
            return
        command = ""
        if entry.is_withheld:
            is_unpinned = verdict.reason == "unpinned"
            command = (
                "discovery config lock --check" if is_unpinned else f"discovery review {server}"
            )
        subject = entry.offering.subject
        detail = "" if entry.is_withheld else verdict_texts.place(self.settings, entry)
        reason = public_decider(verdict, subject=subject)
        raise error(server, name, reason, detail=detail, command=command)
