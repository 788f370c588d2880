"""The part of a server in the catalog, from the outcome of listing it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.catalog import REMOVED_FOR, Failure, RemovedTool, ServerPart
from discovery_engine.errors import NeedsConfigError, UnavailableError, UpstreamError
from discovery_engine.upstream.connection import has_commands, resolved_transport

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.ingestion.ingestor import Ingestor
    from discovery_engine.engine.ingestion.listing_result import ListingResult
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.upstream.listing import Listing


def part_from_result(
    server: ServerSettings, known: ServerPart, result: ListingResult, ingestor: Ingestor
) -> ServerPart:
    """The new part of a server, from its listing and the part known before."""
    if isinstance(result.outcome, UpstreamError):
        return failed(known, result.outcome, result.at)
    part = _listed(server, known, result.outcome, result, ingestor)
    part = replace(part, removed=removed_tools(known, part, now=result.at))
    # To make it again is a third of the time that its row takes, and most listings are as before.
    return part.with_digest(known.digest) if part.entries is known.entries else part


def _listed(
    server: ServerSettings,
    known: ServerPart,
    listing: Listing,
    result: ListingResult,
    ingestor: Ingestor,
) -> ServerPart:
    """The part of a server that was listed successfully."""
    is_same = result.same_as is known and ingestor.makes_same(server, known)
    others = listing.offerings.items()
    part = replace(
        known if is_same else ServerPart(server.name, instructions=listing.instructions),
        listed_at=result.at,
        ttl=ttl_of(listing),
        failure=None,
        dropped=tuple(chain(listing.dropped, *(offerings.dropped for _, offerings in others))),
        unlisted={kind.value: offerings.failure for kind, offerings in others if offerings.failure},
        connection=listing.connection,
        findings=result.findings,
    )
    return part if is_same else ingestor.make_part(server, part, result.tools, result.offerings)


def removed_tools(known: ServerPart, new: ServerPart, *, now: float) -> tuple[RemovedTool, ...]:
    """The tools that are gone since `known`, or were gone then and not for too long."""
    gone: dict[str, float] = {entry.tool.name: now for entry in known.entries}
    gone |= {tool.name: tool.at for tool in known.removed if now - tool.at < REMOVED_FOR}
    names = sorted(gone.keys() - new.by_name.keys())
    return tuple(RemovedTool(name, gone[name]) for name in names)


def ttl_of(listing: Listing) -> float | None:
    """The shortest time to live of its lists, in seconds; None if the server set none."""
    return min((ttl for ttl in _ttls(listing) if ttl is not None), default=None)


def _ttls(listing: Listing) -> Iterator[float | None]:
    yield listing.ttl
    yield from (listed.ttl for listed in listing.offerings.values())


def failed(part: ServerPart, error: UpstreamError, now: float) -> ServerPart:
    """The part of a server whose listing failed: its last known tools stay."""
    began = part.failure.since if part.failure else None
    return replace(part, failure=failure_of(error, now, began=began))


def without_values(
    part: ServerPart, server: ServerSettings, secrets: SecretResolver, now: float
) -> ServerPart:
    """The part of a server that was never asked: as failed if its entry lacks values."""
    is_unasked = part.listed_at is None and part.failure is None and part.verdict.enabled
    # What a command writes is not known before it is run, which is when the server starts.
    if is_unasked and server.transport and not has_commands(server):
        try:
            resolved_transport(server, secrets)
        except NeedsConfigError as error:
            return failed(part, error, now)
    return part


def failure_of(error: UpstreamError, now: float, *, began: float | None = None) -> Failure:
    """`began` is when the server failed first, if that was before `now`."""
    # While a server is backing off, the error of its last attempt is the cause.
    real = error.__cause__ if isinstance(error.__cause__, UpstreamError) else error
    if not isinstance(real, UnavailableError):
        return Failure(real.code, real.message, real.hint, now, began, detail=real.detail)
    missing = real.missing if isinstance(real, NeedsConfigError) else ()
    references = tuple(value.reference for value in missing)
    return Failure(
        real.code, real.message, real.hint, now, began, real.stderr, real.detail, references
    )
