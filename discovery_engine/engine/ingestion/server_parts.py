"""Listing results, parsed and scanned, and the parts of the catalog that are made from them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util import digests
from discovery_engine.catalog import REMOVED_FOR, Failure, RemovedTool, ServerPart
from discovery_engine.errors import NeedsConfigError, UnavailableError, UpstreamError
from discovery_engine.events import ServerConnected, ServerFailed
from discovery_engine.rules.rule import FOR_REVIEW, Verdict
from discovery_engine.tools.model import Tool, is_canonical
from discovery_engine.tools.offering import Offering
from discovery_engine.trust.effective_trust import ListedServer, suspects, suspicions
from discovery_engine.upstream.connection import (
    connection_fingerprint,
    has_commands,
    resolved_transport,
)

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import ServerSettings, TrustPolicy
    from discovery_engine.engine.ingestion.ingestor import Ingestor
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import AcceptedTools
    from discovery_engine.trust.lockfile import Lock
    from discovery_engine.trust.scanner import Findings
    from discovery_engine.upstream.listing import Listing


class ListingResult(Struct, frozen=True):
    """The result of listing one server, or the error that it failed with."""

    server: ServerSettings
    """The settings of the server at the time of the listing."""
    outcome: Listing | UpstreamError
    at: float
    """Unix time in seconds."""
    tools: tuple[Tool, ...] = ()
    """The tools; empty before `parse_definitions`, and after it the outcome has none."""
    offerings: tuple[Offering, ...] = ()
    """The resources, templates and prompts; the last known ones for a kind whose listing failed."""
    findings: Findings | None = None
    same_as: ServerPart | None = None
    """The part with equal tools, offerings and instructions; None if anything differs."""

    @property
    def listed_server(self) -> ListedServer | None:
        """Return the listing for the trust store; None if it failed."""
        if isinstance(self.outcome, UpstreamError):
            return None
        instructions = self.outcome.instructions
        offered = self.tools + self.offerings
        return ListedServer(self.server, offered, instructions, suspects(self.findings))

    @property
    def event(self) -> ServerConnected | ServerFailed:
        if isinstance(self.outcome, UpstreamError):
            return ServerFailed(self.server.name, self.outcome.code, self.outcome.message)
        tools = self.tools or self.outcome.tools
        return ServerConnected(self.server.name, len(tools), len(self.outcome.dropped))


def parse_listing(result: ListingResult, before: ServerPart) -> ListingResult:
    """Parse and scan the definitions of a result; a long list takes seconds.

    Tools that are unchanged since `before` are not scanned again. A failure is returned unchanged.
    """
    result = parse_definitions(result, before)
    if isinstance(result.outcome, UpstreamError) or result.same_as is before:
        return result
    instructions = result.outcome.instructions
    findings = suspicions((*result.tools, *result.offerings), instructions, before)
    return replace(result, findings=findings)


def parse_definitions(result: ListingResult, before: ServerPart) -> ListingResult:
    """Take the tools from the outcome; a failure, and what has tools, is returned unchanged."""
    if isinstance(result.outcome, UpstreamError) or result.tools:
        return result
    outcome = replace(result.outcome, tools=())
    if same := _same_listing(result, before):
        return replace(same, outcome=outcome)
    name = result.server.name
    tools = tuple(Tool.from_mcp(name, definition) for definition in result.outcome.tools)
    offerings = tuple(_offerings(name, result.outcome, before))
    return replace(result, outcome=outcome, tools=tools, offerings=offerings)


def _same_listing(result: ListingResult, before: ServerPart) -> ListingResult | None:
    """Return the result with the definitions of `before` if they certainly equal it; else None."""
    if isinstance(result.outcome, UpstreamError) or not _lists_the_same(result.outcome, before):
        return None
    return replace(
        result,
        tools=tuple(entry.tool for entry in before.entries),
        offerings=tuple(entry.offering for entry in before.offerings),
        findings=before.findings,
        same_as=before,
    )


def _offerings(server: ServerName, listing: Listing, before: ServerPart) -> Iterator[Offering]:
    """Yield the listed resources, templates and prompts; for a failed kind, those of `before`."""
    for kind, listed in listing.offerings.items():
        if listed.failure:
            yield from (entry.offering for entry in before.of_kind(kind))
        for definition in listed.definitions:
            yield Offering.from_mcp(server, kind, definition)


def _lists_the_same(listing: Listing, before: ServerPart) -> bool:
    """Return whether a listing certainly equals a part in definitions and instructions."""
    if before.findings is None or listing.instructions != before.present_instructions:
        return False
    tools = {entry.tool.upstream_name: entry.tool.source for entry in before.entries}
    others = {(e.offering.kind, e.offering.identifier): e.offering.source for e in before.offerings}
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


def part_from_result(
    server: ServerSettings, before: ServerPart, result: ListingResult, ingestor: Ingestor
) -> ServerPart:
    """Return the new part of a server, made from its listing and its previous part."""
    if isinstance(result.outcome, UpstreamError):
        return failed(before, result.outcome, result.at)
    part = _listed(server, before, result.outcome, result, ingestor)
    part = replace(part, removed=removed_tools(before, part, now=result.at))
    # Hashing takes a third of the time to write the row, and most listings are unchanged.
    return part.with_digest(before.digest) if part.entries is before.entries else part


def _listed(
    server: ServerSettings,
    before: ServerPart,
    listing: Listing,
    result: ListingResult,
    ingestor: Ingestor,
) -> ServerPart:
    """Return the part of a server that was listed successfully."""
    is_same = result.same_as is before and ingestor.makes_same(server, before)
    others = listing.offerings.items()
    part = replace(
        before if is_same else ServerPart(server.name, instructions=listing.instructions),
        listed_at=result.at,
        ttl=ttl_of(listing),
        failure=None,
        dropped=tuple(chain(listing.dropped, *(offerings.dropped for _, offerings in others))),
        unlisted={kind.value: offerings.failure for kind, offerings in others if offerings.failure},
        connection=listing.connection,
        declared=listing.declared,
        extensions=listing.extensions,
        findings=result.findings,
    )
    return part if is_same else ingestor.make_part(server, part, result.tools, result.offerings)


def removed_tools(before: ServerPart, new: ServerPart, *, now: float) -> tuple[RemovedTool, ...]:
    """Return the tools removed since `before`, and earlier ones up to the age `REMOVED_FOR`."""
    gone: dict[str, float] = {entry.tool.name: now for entry in before.entries}
    gone |= {tool.name: tool.at for tool in before.removed if now - tool.at < REMOVED_FOR}
    names = sorted(gone.keys() - new.by_name.keys())
    return tuple(RemovedTool(name, gone[name]) for name in names)


def ttl_of(listing: Listing) -> float | None:
    """Return the shortest TTL of the lists in seconds; None if the server set none."""
    ttls = (listing.ttl, *(listed.ttl for listed in listing.offerings.values()))
    return min((ttl for ttl in ttls if ttl is not None), default=None)


def failed(part: ServerPart, error: UpstreamError, now: float) -> ServerPart:
    """Return the part of a server whose listing failed; it keeps its last known tools."""
    began = part.failure.since if part.failure else None
    return replace(part, failure=failure_of(error, now, began=began))


def without_values(
    part: ServerPart, server: ServerSettings, secrets: SecretResolver, now: float
) -> ServerPart:
    """Return the part as failed if its server was never contacted and its entry lacks values."""
    is_unasked = part.listed_at is None and part.failure is None and part.verdict.enabled
    # A value that a command prints is unknown until the server starts, which runs the command.
    if is_unasked and server.transport and not has_commands(server):
        try:
            resolved_transport(server, secrets)
        except NeedsConfigError as error:
            return failed(part, error, now)
    return part


def failure_of(error: UpstreamError, now: float, *, began: float | None = None) -> Failure:
    """Convert an error; `began` is the Unix time of the first failure if it precedes `now`."""
    # While a server is backing off, the error of its last attempt is the cause.
    real = error.__cause__ if isinstance(error.__cause__, UpstreamError) else error
    if not isinstance(real, UnavailableError):
        return Failure(real.code, real.message, real.hint, now, began, detail=real.detail)
    missing = real.missing if isinstance(real, NeedsConfigError) else ()
    references = tuple(value.reference for value in missing)
    return Failure(
        real.code, real.message, real.hint, now, began, real.stderr, real.detail, references
    )


logger = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder()


class _Basis(Struct, frozen=True):
    """The values that decide, besides the settings, whether a listing changes anything."""

    listing: bytes
    known: ServerPart
    lock: Lock | None
    policy: TrustPolicy
    accepted: AcceptedTools
    lost_at: float | None


class UnchangedParts:
    """Caches for each server the last listing that changed nothing, as most listings repeat.

    An instance is valid for one version of the settings, because comparing the settings of 10,000
    servers would take too long.
    """

    def __init__(self) -> None:
        self._confirmed: dict[ServerName, _Basis] = {}

    def part(
        self, server: ServerSettings, before: ServerPart, result: ListingResult, ingestor: Ingestor
    ) -> ServerPart | None:
        """Return `before` with a new time if a listing changes nothing else; otherwise None.

        None is also returned if the check raises an exception; the caller then processes the
        listing by itself, which reports the cause.
        """
        if isinstance(result.outcome, UpstreamError):
            return None
        try:
            basis = _basis(server, before, result.outcome, ingestor)
            if self._confirmed.get(server.name) == basis:
                return replace(before, listed_at=result.at)
            part = _unchanged_part(server, before, result, ingestor)
        except Exception:
            logger.debug("The list of %r is read by itself", server.name, exc_info=True)
            return None
        if part and not part.removed:  # removed tools expire with time, so the part would change
            self._confirmed[server.name] = basis
        return part


def _basis(
    server: ServerSettings, before: ServerPart, listing: Listing, ingestor: Ingestor
) -> _Basis:
    trust = ingestor.trust
    return _Basis(
        _digest(listing),
        before,
        trust.lock,
        trust.policy,
        trust.accepted(server),
        trust.decisions.lost_at,
    )


def _digest(listing: Listing) -> bytes:
    """Return the digest of everything that a server listed, in its order.

    Raises:
        ValueError, OverflowError: If a value cannot be encoded as JSON.
    """
    offerings = list(listing.offerings.items())
    plain = replace(listing, offerings={}, declared=dict(listing.declared))
    return digests.digest(_ENCODER.encode((plain, offerings)))


def _unchanged_part(
    server: ServerSettings, before: ServerPart, result: ListingResult, ingestor: Ingestor
) -> ServerPart | None:
    same = _same_listing(result, before)
    if same is None or (listed := same.listed_server) is None:
        return None
    if any(ingestor.trust.first_seen(*listed._replace(server=server))):
        return None  # the listing accepts definitions at first sight, which changes decisions
    part = part_from_result(server, before, same, ingestor)
    return part if replace(part, listed_at=before.listed_at) == before else None


class SharedParts(Struct, frozen=True):
    """The parts of other processes that this one adopts, and those that it must list again."""

    adopted: list[ServerPart]
    """The parts that differ from the current ones."""
    doubtful: list[ServerName]
    """The servers of which this process holds back something that the shared part would show."""


def shared_parts(
    parts: Iterable[ServerPart],
    catalog: Catalog,
    ingestor: Ingestor,
    *,
    fail_alike: bool,
    mended: Collection[ServerName],
) -> SharedParts:
    """Evaluate parts that other processes saved.

    A part is ignored if its process connects to the server differently. A part never releases
    anything that is held back for review here, because it may be older, whatever the clocks say;
    the server is returned as doubtful, and must be listed again.

    Args:
        parts: The saved parts.
        catalog: The current catalog.
        ingestor: The ingestor of the current settings.
        fail_alike: True to adopt all failures. Otherwise only those of workers are adopted, because
            a server that another gateway cannot reach may be reachable from here.
        mended: The servers that failed for lack of values which this process has.
    """
    servers = ingestor.rulebook.settings.by_name
    shared = SharedParts([], [])
    for part in parts:
        server, own_part = servers.get(part.server), catalog.part(part.server)
        if server is None or part.connection != connection_fingerprint(server):
            continue
        new_part = own_part
        if part.listed_at is not None:
            tools = [entry.tool for entry in part.entries]
            others = [entry.offering for entry in part.offerings]
            new_part = ingestor.make_part(server, part, tools, others)
        adopts = (fail_alike or _is_of_worker(own_part, part)) and not _is_newer(
            own_part.failure, part
        )
        failure = None if part.server in mended else part.failure
        new_part = replace(new_part, failure=failure if adopts else own_part.failure)
        if _held_back(own_part) & _shown(new_part):
            shared.doubtful.append(part.server)
        elif new_part != own_part:
            shared.adopted.append(new_part)
    return shared


def _is_of_worker(own_part: ServerPart, part: ServerPart) -> bool:
    """Return whether a worker reported that a server fails, or that it works again."""
    failure = part.failure or own_part.failure
    return failure is not None and failure.is_of_worker


def _is_newer(failure: Failure | None, part: ServerPart) -> bool:
    """Return whether a failure is newer than the saved part."""
    tried_at = part.failure.at if part.failure else part.listed_at
    return failure is not None and failure.at > (tried_at or 0.0)


def _held_back(part: ServerPart) -> set[str | None]:
    """Return the keys of definitions that wait for review; None stands for the instructions."""
    held = {key for key, verdict in _verdicts(part) if verdict.reason in FOR_REVIEW}
    return held | {None} if part.new_instructions is not None else held


def _shown(part: ServerPart) -> set[str | None]:
    keys = {key for key, verdict in _verdicts(part) if verdict.reason not in FOR_REVIEW}
    return keys | {None} if part.new_instructions is None else keys


def _verdicts(part: ServerPart) -> Iterator[tuple[str | None, Verdict]]:
    for entry in part.entries:
        yield entry.tool.decision_key, entry.verdict
    for other in part.offerings:
        yield other.offering.decision_key, other.verdict
