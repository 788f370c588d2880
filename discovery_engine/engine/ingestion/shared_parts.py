"""Listings of other processes, adopted by this one under its own rules and decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from discovery_engine.rules.rule import FOR_REVIEW, Verdict
from discovery_engine.upstream.connection import connection_fingerprint

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, Failure, ServerPart
    from discovery_engine.engine.ingestion.ingestor import Ingestor
    from discovery_engine.tools.model import ServerName


class SharedParts(NamedTuple):
    adopted: list[ServerPart]
    """Parts that differ from the present ones."""
    doubtful: list[ServerName]
    """Servers of which something is held back here that the other gateway has not seen."""


def shared_parts(
    found: Iterable[ServerPart],
    catalog: Catalog,
    ingestor: Ingestor,
    *,
    fail_alike: bool,
    mended: Collection[ServerName],
) -> SharedParts:
    """Judge what other processes listed; one that reaches a server in another way is ignored.

    What is held back here is never released by another's listing, which may be older, whatever the
    clocks say: the server has to be listed once more.

    Args:
        found: What was saved of servers.
        catalog: The present one.
        ingestor: Of the present settings.
        fail_alike: Whether failures are adopted, too: whether a server can be reached from here is
            not for another machine to say.
        mended: Servers that failed because of values which this process has.
    """
    servers = ingestor.rulebook.settings.by_name
    shared = SharedParts([], [])
    for part in found:
        server, own_part = servers.get(part.server), catalog.part(part.server)
        if server is None or part.connection != connection_fingerprint(server):
            continue
        new_part = own_part
        if part.listed_at is not None:
            tools = [entry.tool for entry in part.entries]
            others = [entry.offering for entry in part.offerings]
            new_part = ingestor.make_part(server, part, tools, others)
        adopts = fail_alike and not _is_newer(own_part.failure, part)
        failure = None if part.server in mended else part.failure
        new_part = replace(new_part, failure=failure if adopts else own_part.failure)
        if _held_back(own_part) & _shown(new_part):
            shared.doubtful.append(part.server)
        elif new_part != own_part:
            shared.adopted.append(new_part)
    return shared


def _is_newer(failure: Failure | None, part: ServerPart) -> bool:
    """Return whether a failure came after what is saved, which therefore lacks it."""
    tried_at = part.failure.at if part.failure else part.listed_at
    return failure is not None and failure.at > (tried_at or 0.0)


def _held_back(part: ServerPart) -> set[str | None]:
    """Return the keys of what waits for review; None stands for the instructions."""
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
