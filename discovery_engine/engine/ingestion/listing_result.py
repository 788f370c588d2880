"""The outcome of listing a server: what it listed, parsed and scanned, or why it failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.errors import UpstreamError
from discovery_engine.events import ServerConnected, ServerFailed
from discovery_engine.tools.model import Tool, is_canonical
from discovery_engine.tools.offering import Offering
from discovery_engine.trust.effective_trust import ListedServer, suspects, suspicions

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.scanner import Findings
    from discovery_engine.upstream.listing import Listing


class ListingResult(Struct, frozen=True):
    server: ServerSettings
    """Its settings when it was listed."""
    outcome: Listing | UpstreamError
    at: float
    """Unix time in seconds."""
    tools: tuple[Tool, ...] = ()
    """Its tools, once parsed by `parse_listing`."""
    offerings: tuple[Offering, ...] = ()
    """The same of all else; of a kind that could not be listed, the last known ones."""
    findings: Findings | None = None
    same_as: ServerPart | None = None
    """The part that has the same tools, offerings and instructions; None if any is different."""

    @property
    def listed_server(self) -> ListedServer | None:
        """The listing for the trust store; None if it failed."""
        if isinstance(self.outcome, UpstreamError):
            return None
        instructions = self.outcome.instructions
        offered = self.tools + self.offerings
        return ListedServer(self.server, offered, instructions, suspects(self.findings))

    @property
    def event(self) -> ServerConnected | ServerFailed:
        if isinstance(self.outcome, UpstreamError):
            return ServerFailed(self.server.name, self.outcome.code, self.outcome.message)
        tools, dropped = self.outcome.tools, self.outcome.dropped
        return ServerConnected(self.server.name, len(tools), len(dropped))


def parse_listing(result: ListingResult, known: ServerPart) -> ListingResult:
    """`result` with its definitions parsed and scanned; a long list takes seconds.

    Tools that are unchanged since `known` are not scanned again.
    """
    if isinstance(result.outcome, UpstreamError):
        return result
    if same := same_listing(result, known):
        return same
    tools = tuple(
        Tool.from_mcp(result.server.name, definition) for definition in result.outcome.tools
    )
    offerings = tuple(_offerings(result.server.name, result.outcome, known))
    findings = suspicions((*tools, *offerings), result.outcome.instructions, known)
    return replace(result, tools=tools, offerings=offerings, findings=findings)


def same_listing(result: ListingResult, known: ServerPart) -> ListingResult | None:
    """`result` with the definitions of `known`, if it certainly has the same; else None."""
    if isinstance(result.outcome, UpstreamError) or not _lists_the_same(result.outcome, known):
        return None
    return replace(
        result,
        tools=tuple(entry.tool for entry in known.entries),
        offerings=tuple(entry.offering for entry in known.offerings),
        findings=known.findings,
        same_as=known,
    )


def _offerings(server: ServerName, listing: Listing, known: ServerPart) -> Iterator[Offering]:
    """Yield what was listed besides tools; for a kind that failed, what was known before."""
    for kind, listed in listing.offerings.items():
        if listed.failure:
            yield from (entry.offering for entry in known.of_kind(kind))
        for definition in listed.definitions:
            yield Offering.from_mcp(server, kind, definition)


def _lists_the_same(listing: Listing, known: ServerPart) -> bool:
    """Return whether a listing certainly has the definitions and instructions of a part."""
    if known.findings is None or listing.instructions != known.present_instructions:
        return False
    tools = {entry.tool.upstream_name: entry.tool.source for entry in known.entries}
    others = {(e.offering.kind, e.offering.identifier): e.offering.source for e in known.offerings}
    listed_tools = {definition["name"]: definition for definition in listing.tools}
    listed_others = {
        (kind, definition[kind.wire.identifier]): definition
        for kind, listed in listing.offerings.items()
        for definition in listed.definitions
    }
    return (
        tools.keys() == listed_tools.keys()
        and others.keys() == listed_others.keys()
        and all(is_canonical(source, listed_tools[name]) for name, source in tools.items())
        and all(is_canonical(source, listed_others[key]) for key, source in others.items())
    )
