"""Which of its offers a server is installed from, and what it is called then."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine._util.text import quoted
from discovery_engine.errors import InstallRefusedError
from discovery_engine.marketplace.entry import PackageOffer, RemoteOffer

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import MarketplaceEntry

Offer: TypeAlias = "PackageOffer | RemoteOffer"

_AROUND = re.compile(r"^(?:mcp-server-|server-|mcp-)|(?:-mcp-server|-server-mcp|-mcp|-server)$")
_LONGEST_NAME = 32  # characters


def chosen_offer(entry: MarketplaceEntry, wanted: str | None, runnable: Collection[str]) -> Offer:
    """The offer that is meant, or else the first that can be run here.

    Args:
        entry: Of the marketplace.
        wanted: A type (`npm`, `remote`) or an identifier.
        runnable: The types of packages that this machine can start.

    Raises:
        InstallRefusedError: If there is none.
    """
    offers: list[Offer] = [*entry.packages, *entry.remotes]
    usable = [one for one in offers if not _obstacle(one)]
    if wanted:
        usable = [one for one in usable if wanted in _names(one)]
    runs_here = (one for one in usable if _type(one) in {*runnable, "remote"})
    if found := next(runs_here, None) or next(iter(usable), None):
        return found
    known = ", ".join(_names(one)[0] for one in offers)
    if wanted and offers:
        raise InstallRefusedError(
            f"{entry.name} has no usable offer {quoted(wanted)}", hint=f"it has {known}"
        )
    reasons = [_obstacle(one) for one in offers] + [one.reason for one in entry.refused]
    reason = (
        "; ".join(dict.fromkeys(filter(None, reasons))) or "it offers no package and no address"
    )
    raise InstallRefusedError(f"{entry.name} cannot be installed: {reason}")


def same_offer(entry: MarketplaceEntry, identifier: str, kind: str) -> str:
    """The offer of a later version: of the same identifier, or else of the same type.

    The address of a bundle, and that of a remote server, may be another in each version.
    """
    offers: list[Offer] = [*entry.packages, *entry.remotes]
    names = {name for offer in offers for name in _names(offer)}
    return identifier if identifier in names else kind


def default_name(entry: MarketplaceEntry) -> str:
    """A short name for the server: `time` for `mcp-server-time`."""
    last = entry.name.rpartition("/")[2].lower()
    plain = re.sub(r"[^a-z0-9]+", "-", last).strip("-")
    short = plain
    while (shorter := _AROUND.sub("", short, count=1)) != short and shorter:
        short = shorter
    return short[:_LONGEST_NAME].strip("-") or "server"


def _type(offer: Offer) -> str:
    return offer.registry_type if isinstance(offer, PackageOffer) else "remote"


def _names(offer: Offer) -> tuple[str, ...]:
    if isinstance(offer, PackageOffer):
        return (offer.registry_type, offer.identifier)
    return ("remote", offer.url)


def _obstacle(offer: Offer) -> str:
    """Why an offer cannot be used by this program; empty if it can."""
    if isinstance(offer, RemoteOffer):
        return ""
    if offer.transport.type != "stdio":
        return (
            f"its {offer.registry_type} package serves HTTP, and has to be started by hand:"
            " `discovery add` takes its address"
        )
    if offer.registry_url:
        return (
            f"its {offer.registry_type} package is in the registry {offer.registry_url}, which is"
            " not the usual one"
        )
    return ""
