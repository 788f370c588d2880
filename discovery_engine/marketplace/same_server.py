"""Entries of several sources that are one: the same package of the same repository, by no name.

A name proves nothing: the first to publish in another source has it. What the highest source
says counts, and only its offers; others fill what it leaves open. Trust is that of the least
trusted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from packaging.version import InvalidVersion, Version

from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import (
    MarketplaceEntry,
    OfferedTool,
    VersionNote,
    package_key,
    repository_key,
)

Rank = Callable[[str], int]
"""The place of a source by its id; the lowest counts most."""
_SEMVER = re.compile(r"v?(\d{1,18}\.\d{1,18}\.\d{1,18})-([0-9A-Za-z.-]+?)(?:\+.*)?")
_LONGEST_VERSION = 200  # characters


class EntryIdentity(NamedTuple):
    """The fields that decide whether two entries are the same server."""

    source: str
    """The source that has the entry."""
    name: str
    package: str
    """`package_key`."""
    repository: str
    """`repository_key`; empty if it names none."""


def identity_of(entry: MarketplaceEntry) -> EntryIdentity:
    source = entry.origins[0].source if entry.origins else ""
    return EntryIdentity(source, entry.name, package_key(entry), repository_key(entry.repository))


def merged_entries(entries: Iterable[MarketplaceEntry], rank: Rank) -> list[MarketplaceEntry]:
    """One entry for each server, in the order in which the first of each came."""
    listed = list(entries)
    groups = group_identities(list(map(identity_of, listed)), rank)
    return [merge_group([listed[place] for place in group]) for group in sorted(groups, key=min)]


def group_identities(identities: Sequence[EntryIdentity], rank: Rank) -> list[list[int]]:
    """The places of those that are one server; of each the one that counts most is first."""
    by_package: defaultdict[str, list[int]] = defaultdict(list)
    for place, identity in enumerate(identities):
        by_package[identity.package].append(place)

    def order(place: int) -> tuple[int, str, int]:
        identity = identities[place]
        return rank(identity.source), identity.name, place

    groups: list[list[int]] = []
    for same in by_package.values():
        if len(same) == 1:
            groups.append(same)
        else:
            groups += _by_repository(sorted(same, key=order), identities)
    return groups


def merge_group(group: Sequence[MarketplaceEntry]) -> MarketplaceEntry:
    """One entry of those of a group, of which the first counts most."""
    if len(group) == 1:
        return group[0]
    first = group[0]
    status, message = first.status, first.status_message
    if deprecated := next((entry for entry in group if entry.status == "deprecated"), None):
        status, message = deprecated.status, deprecated.status_message
    return replace(
        first,
        title=_first(entry.title for entry in group),
        description=_first(entry.description for entry in group),
        publisher=_first(entry.publisher for entry in group),
        repository=_first(entry.repository for entry in group),
        website=_first(entry.website for entry in group),
        first_published_at=min(
            filter(None, (entry.first_published_at for entry in group)), default=""
        ),
        updated_at=max(entry.updated_at for entry in group),
        status=status,
        status_message=message,
        tools=_tools(group),
        tags=tuple(dict.fromkeys(tag for entry in group for tag in entry.tags))[: bounds.TAGS],
        versions=highest_first(note for entry in group for note in entry.versions),
        origins=tuple(dict.fromkeys(origin for entry in group for origin in entry.origins)),
    )


def highest_first(notes: Iterable[VersionNote]) -> tuple[VersionNote, ...]:
    """Each version once, the highest first; a date that is known wins over none."""
    notes_by_version: dict[str, VersionNote] = {}
    for note in notes:
        if note.version not in notes_by_version or not notes_by_version[note.version].published_at:
            notes_by_version[note.version] = note
    ordered = sorted(
        notes_by_version.values(), key=lambda note: version_key(note.version), reverse=True
    )
    return tuple(ordered[: bounds.VERSIONS])


def _by_repository(same: Sequence[int], identities: Sequence[EntryIdentity]) -> list[list[int]]:
    """Groups of those of one package, of which those that count most come first."""
    groups: list[list[int]] = []
    # Those with a repository make groups; what names none joins the only one that it can mean.
    for place in sorted(same, key=lambda index: not identities[index].repository):
        fitting = [
            group
            for group in groups
            if _are_one([identities[member] for member in group], identities[place])
        ]
        if len(fitting) == 1:
            fitting[0].append(place)
        else:
            groups.append([place])
    return [sorted(group, key=same.index) for group in groups]


def _are_one(group: Sequence[EntryIdentity], identity: EntryIdentity) -> bool:
    places = {member.repository for member in group} - {""}
    is_same_place = not identity.repository or not places or identity.repository in places
    # A source lists many servers that one package starts, such as a bridge to remote servers.
    return is_same_place and identity.source not in {member.source for member in group}


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _tools(group: Sequence[MarketplaceEntry]) -> tuple[OfferedTool, ...] | None:
    return next((entry.tools for entry in group if entry.tools is not None), None)


def version_key(version: str) -> tuple[int, Version, tuple[tuple[int, int, str], ...], str]:
    """The place of a version: of semver or of PEP 440; what is neither is below all that are."""
    text = version.strip()[:_LONGEST_VERSION]
    try:
        if match := _SEMVER.fullmatch(text):  # its pre-releases have an order of their own
            before = tuple(
                (0, int(part), "") if part.isdecimal() else (1, 0, part)
                for part in match[2].split(".")
            )
            return (1, Version(f"{match[1]}rc0"), before, "")
        parsed = Version(text)
        return (1, Version(parsed.public), (), "")
    except InvalidVersion:
        return (0, Version("0"), (), text)
