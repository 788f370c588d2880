"""All that is known of one entry, and what it needs of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.diagnostics import Diagnostic, Severity
from discovery_engine.marketplace.entry import MarketplaceEntry
from discovery_engine.marketplace.entry_warnings import entry_warnings
from discovery_engine.marketplace.package_check import check_packages
from discovery_engine.marketplace.package_managers.package_names import checked_version
from discovery_engine.marketplace.package_managers.prerequisites import (
    RUNTIMES,
    Prerequisite,
    Prerequisites,
)
from discovery_engine.marketplace.same_server import highest_first
from discovery_engine.marketplace.source import LiveSource

_GRAVITY: tuple[Severity, ...] = ("error", "warning", "info")


class EntryDetails(Struct, frozen=True):
    """An entry as it is shown before it is installed."""

    entry: MarketplaceEntry
    """Completed by what its package managers say of it."""
    warnings: tuple[Diagnostic, ...] = ()
    """The gravest first."""
    prerequisites: tuple[Prerequisite, ...] = ()
    """The programs that start its packages."""
    problems: tuple[Diagnostic, ...] = ()
    """What could not be found out."""


def at_version(entry: MarketplaceEntry, version: str) -> MarketplaceEntry:
    """The entry with another version of its packages; whether there is one is not known here.

    Raises:
        InvalidPackageNameError: If that is no exact version.
    """
    packages = tuple(
        replace(offer, version=checked_version(offer.registry_type, version), integrity="")
        for offer in entry.packages
        if offer.registry_type != "mcpb"  # its address is that of one version
    )
    dates = {note.version: note.published_at for note in entry.versions}
    published = dates.get(version, "")
    return replace(entry, version=version, packages=packages, published_at=published, remotes=())


def with_published(
    entry: MarketplaceEntry, published: Sequence[MarketplaceEntry], version: str
) -> MarketplaceEntry:
    """The entry with all versions that its registry has now, of which it may become another one.

    Args:
        entry: As it was copied: of the highest version alone.
        published: Every version; none if the registry could not be asked.
        version: The one that is wanted; empty for that of the entry.
    """
    if not published:
        return entry
    chosen = next((one for one in published if version and one.version == version), None)
    if chosen:
        entry = replace(chosen, origins=entry.origins, tools=chosen.tools or entry.tools)
    notes = (note for one in (*published, entry) for note in one.versions)
    dates = filter(None, (one.published_at for one in published))
    return replace(entry, versions=highest_first(notes), first_published_at=min(dates, default=""))


async def entry_details(
    entry: MarketplaceEntry,
    managers: Mapping[str, LiveSource],
    prerequisites: Prerequisites,
    *,
    now: float,
) -> EntryDetails:
    """Judge an entry.

    Args:
        entry: As the sources have it.
        managers: The package managers to ask, by type of package; none without network.
        prerequisites: What is known of this machine.
        now: Unix time in seconds.
    """
    checked = await check_packages(entry, managers)
    kinds = dict.fromkeys(offer.registry_type for offer in checked.entry.packages)
    programs = [program for kind in kinds for program in RUNTIMES[kind]]
    warnings = (*checked.warnings, *entry_warnings(checked.entry, now=now))
    return EntryDetails(
        checked.entry,
        warnings=tuple(sorted(warnings, key=lambda one: _GRAVITY.index(one.severity))),
        prerequisites=await prerequisites.probe(programs),
        problems=checked.problems,
    )
