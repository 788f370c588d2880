"""All that is known of one entry, and what it needs of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.text import quoted
from discovery_engine.diagnostics import Diagnostic, Severity
from discovery_engine.marketplace.entry import (
    MarketplaceEntry,
    PackageOffer,
    repository_key,
)
from discovery_engine.marketplace.entry_warnings import entry_warnings
from discovery_engine.marketplace.package_managers.prerequisites import (
    RUNTIMES,
    Prerequisite,
    Prerequisites,
)
from discovery_engine.marketplace.package_names import checked_version
from discovery_engine.marketplace.same_server import highest_first
from discovery_engine.marketplace.source import LiveSource, SourceFailure

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
    """Diagnostics for the facts that could not be found out."""


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
    chosen = next(
        (release for release in published if version and release.version == version), None
    )
    if chosen:
        entry = replace(chosen, origins=entry.origins, tools=chosen.tools or entry.tools)
    notes = (note for release in (*published, entry) for note in release.versions)
    dates = filter(None, (release.published_at for release in published))
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
    warnings: list[Diagnostic] = []
    problems: list[Diagnostic] = []
    for offer in entry.packages:
        source = managers.get(offer.registry_type)
        if source is None or offer.registry_url or _is_from(source, entry, offer):
            continue
        try:
            facts = await source.lookup(offer.identifier, offer.version)
        except SourceFailure as failure:
            problems.append(failure.diagnostic(source.settings.name))
            continue
        warnings += _differences(entry, offer, facts)
        if facts is not None:
            entry = _with_facts(entry, offer, facts)
    warnings += entry_warnings(entry, now=now)
    programs = [program for offer in entry.packages for program in RUNTIMES[offer.registry_type]]
    return EntryDetails(
        entry,
        warnings=tuple(sorted(warnings, key=lambda warning: _GRAVITY.index(warning.severity))),
        prerequisites=await prerequisites.probe(programs),
        problems=tuple(problems),
    )


# An entry compared with what its package manager says of its package.
#
# A registry lists what a publisher sent in; the package itself may be gone, deprecated, without a
# program, or of another repository.

_MANAGERS = {"npm": "npm", "pypi": "PyPI"}


def _is_from(source: LiveSource, entry: MarketplaceEntry, offer: PackageOffer) -> bool:
    """Return whether the entry is already the package manager's own answer."""
    is_listed = any(origin.source == source.settings.name for origin in entry.origins)
    return is_listed and len(entry.origins) == 1 and bool(offer.version and offer.integrity)


def _differences(
    entry: MarketplaceEntry, offer: PackageOffer, facts: MarketplaceEntry | None
) -> list[Diagnostic]:
    where = _MANAGERS[offer.registry_type]
    package = " ".join(filter(None, (offer.identifier, offer.version)))
    if facts is None:
        return [
            Diagnostic(
                "OFFER_MISSING",
                f"{where} has no package {package!r} that could be installed",
                "it may have been withdrawn; `--version` shows another one",
            )
        ]
    diagnostics = [
        Diagnostic("OFFER_REFUSED", f"{package!r} cannot be used: {refusal.reason}")
        for refusal in facts.refused
    ]
    if facts.status != "active" and entry.status == "active":
        words = f": {quoted(facts.status_message)}" if facts.status_message else ""
        diagnostics.append(
            Diagnostic(
                "OFFER_DEPRECATED",
                f"{where} has {package!r} as deprecated{words}",
                "look for what its publisher names instead",
            )
        )
    mine, theirs = repository_key(entry.repository), repository_key(facts.repository)
    if mine and theirs and mine != theirs:
        diagnostics.append(
            Diagnostic(
                "OFFER_OTHER_REPOSITORY",
                f"{package!r} names the repository {theirs!r}, not {mine!r}",
                "a package can be published again under another publisher's name",
            )
        )
    return diagnostics


def _with_facts(
    entry: MarketplaceEntry, offer: PackageOffer, facts: MarketplaceEntry
) -> MarketplaceEntry:
    """Fill in what the entry leaves open with the facts from the package manager."""
    integrity = next((package.integrity for package in facts.packages), "")
    version = offer.version or facts.version
    filled = replace(offer, version=version, integrity=offer.integrity or integrity)
    packages = tuple(filled if package is offer else package for package in entry.packages)
    if facts.refused:
        packages = tuple(package for package in entry.packages if package is not offer)
    dates = filter(None, (entry.first_published_at, facts.first_published_at))
    return replace(
        entry,
        description=entry.description or facts.description,
        version=entry.version or facts.version,
        publisher=entry.publisher or facts.publisher,
        repository=entry.repository or facts.repository,
        website=entry.website or facts.website,
        published_at=entry.published_at or facts.published_at,
        first_published_at=min(dates, default=""),
        packages=packages,
        tags=entry.tags or facts.tags,
        versions=entry.versions if len(entry.versions) > 1 else facts.versions or entry.versions,
    )
