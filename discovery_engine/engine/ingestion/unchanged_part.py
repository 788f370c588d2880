"""Which listings certainly change nothing, so that many can be stored in one write."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from discovery_engine._util import digests
from discovery_engine.engine.ingestion.listing_result import same_listing
from discovery_engine.engine.ingestion.server_parts import part_from_result
from discovery_engine.errors import UpstreamError

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import ServerSettings, TrustPolicy
    from discovery_engine.engine.ingestion.ingestor import Ingestor
    from discovery_engine.engine.ingestion.listing_result import ListingResult
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import AcceptedTools
    from discovery_engine.trust.lockfile import Lock
    from discovery_engine.upstream.listing import Listing

logger = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder()


class _Basis(NamedTuple):
    """All that it depends on whether a listing changes anything, beside the settings."""

    listing: bytes
    known: ServerPart
    lock: Lock | None
    policy: TrustPolicy
    accepted: AcceptedTools
    lost_at: float | None


class UnchangedParts:
    """Remembers of each server which listing changed nothing: most are the same again and again.

    It is for the settings of one moment: to compare those of 10,000 servers takes too long.
    """

    def __init__(self) -> None:
        self._confirmed: dict[ServerName, _Basis] = {}

    def part(
        self, server: ServerSettings, known: ServerPart, result: ListingResult, ingestor: Ingestor
    ) -> ServerPart | None:
        """The part that a listing makes, if it is `known` but for its time; else None.

        Whatever is odd about a listing is found when it is read by itself.
        """
        if isinstance(result.outcome, UpstreamError):
            return None
        try:
            basis = _basis(server, known, result.outcome, ingestor)
            if self._confirmed.get(server.name) == basis:
                return replace(known, listed_at=result.at)
            part = _unchanged_part(server, known, result, ingestor)
        except Exception:
            logger.debug("The list of %r is read by itself", server.name, exc_info=True)
            return None
        if part and not part.removed:  # what was removed is forgotten with time
            self._confirmed[server.name] = basis
        return part


def _basis(
    server: ServerSettings, known: ServerPart, listing: Listing, ingestor: Ingestor
) -> _Basis:
    trust = ingestor.trust
    return _Basis(
        _digest(listing),
        known,
        trust.lock,
        trust.policy,
        trust.accepted(server),
        trust.decisions.lost_at,
    )


def _digest(listing: Listing) -> bytes:
    """Return the digest of all that a server listed, in its own order.

    Raises:
        ValueError, OverflowError: If it has something that not every JSON may have.
    """
    offerings = list(listing.offerings.items())
    return digests.digest(_ENCODER.encode((replace(listing, offerings={}), offerings)))


def _unchanged_part(
    server: ServerSettings, known: ServerPart, result: ListingResult, ingestor: Ingestor
) -> ServerPart | None:
    same = same_listing(result, known)
    if same is None or (listed := same.listed_server) is None:
        return None
    if any(ingestor.trust.first_seen(*listed._replace(server=server))):
        return None  # to be accepted by this
    part = part_from_result(server, known, same, ingestor)
    return part if replace(part, listed_at=known.listed_at) == known else None
