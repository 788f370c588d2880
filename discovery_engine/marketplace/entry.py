"""Entries of the marketplace: servers as described by their publishers or by a catalog.

All of their content is untrusted. Texts are stored as published, including invisible characters,
because a scanner must see these; they are cleaned before they are displayed (`_util.text`). Parsers
enforce the bounds of `marketplace.bounds`, and for package identifiers the grammar of their
registry (`marketplace.package_names`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from discovery_engine.config.marketplace_settings import SourceTrust
from discovery_engine.marketplace import bounds

RegistryType: TypeAlias = Literal["npm", "pypi", "oci", "nuget", "mcpb"]
EntryStatus: TypeAlias = Literal["active", "deprecated", "deleted"]
InputKind: TypeAlias = Literal["positional", "named", "environment", "header", "variable"]
InputFormat: TypeAlias = Literal["string", "number", "boolean", "filepath"]
TransportType: TypeAlias = Literal["stdio", "streamable-http", "sse"]

TRUST_LEVELS: tuple[SourceTrust, ...] = ("unreviewed", "official", "curated")
"""Trust levels, the lowest first. `official`: the registry verified that the publisher owns the
name, but nobody reviewed the server; `curated`: a source that the owner relies on selected it."""


class _Value(Struct, frozen=True, omit_defaults=True):
    """Base class of the values that are stored with an entry."""


class Input(_Value, frozen=True):
    """A value that starting a server requires: an argument, an environment variable or a header.

    It is either fixed in `value`, which may contain `{names}` of `variables`, or entered by the
    person who installs the server. The `variables` are inputs themselves.
    """

    name: str
    """The name of the variable, header or flag (with its dashes). For a positional argument, a
    label from the publisher, which may be empty."""
    kind: InputKind
    value: str = ""
    """The value that the publisher fixed; each `{name}` in it refers to one of `variables`."""
    description: str = ""
    default: str = ""
    placeholder: str = ""
    """An example that is shown to the person who enters the value."""
    choices: tuple[str, ...] = ()
    """The allowed values; empty if any value is allowed."""
    format: InputFormat = "string"
    variables: tuple[Input, ...] = ()
    """The inputs that replace the `{names}` in `value`."""
    is_required: bool = False
    is_secret: bool = False
    is_repeated: bool = False
    """True if several values may be entered; the argument is repeated for each."""

    @property
    def asked(self) -> tuple[Input, ...]:
        """Return the inputs that a person may enter: this one, or the variables in its value."""
        if self.value:
            return self.variables
        return (self,)


class OfferedTransport(_Value, frozen=True):
    """The transport of a server that is started from a package."""

    type: TransportType = "stdio"
    url: str = ""
    """A URL template; empty for stdio."""
    headers: tuple[Input, ...] = ()
    variables: tuple[Input, ...] = ()


class PackageOffer(_Value, frozen=True):
    """A package from which the server can be started on this machine."""

    registry_type: RegistryType
    identifier: str
    """The name in the registry. For `mcpb`, the URL of the file; for `oci`, the image without tag
    or digest."""
    version: str = ""
    """The exact version; empty if the publisher states none. For `oci`, the tag of the image."""
    runtime_hint: str = ""
    """`npx`, `uvx`, `docker` or `dnx`: as published, or the default of the registry type."""
    runtime_arguments: tuple[Input, ...] = ()
    package_arguments: tuple[Input, ...] = ()
    environment: tuple[Input, ...] = ()
    transport: OfferedTransport = OfferedTransport()
    integrity: str = ""
    """The digest that the source states, such as `sha512-…` or `sha256:…`; empty if none."""
    registry_url: str = ""
    """The URL of the registry; empty for the default registry of the type."""

    @property
    def key(self) -> str:
        """Return a key that ignores spelling variants and the version: `npm:@acme/files`."""
        return f"{self.registry_type}:{_folded(self.registry_type, self.identifier)}"


class RemoteOffer(_Value, frozen=True):
    """The URL of a server that runs already."""

    type: TransportType
    url: str
    """A URL template; each `{name}` in it refers to one of `variables`."""
    headers: tuple[Input, ...] = ()
    variables: tuple[Input, ...] = ()

    @property
    def key(self) -> str:
        return f"remote:{self.url.rstrip('/')}"


class RefusedOffer(_Value, frozen=True):
    """An unusable offer with the reason; it is displayed but never installed."""

    registry_type: str
    identifier: str
    reason: str


class OfferedTool(_Value, frozen=True):
    name: str
    description: str = ""


class EntryOrigin(_Value, frozen=True):
    """A source that lists the entry."""

    source: str
    """The id of the source in the configuration."""
    trust: SourceTrust


class VersionNote(_Value, frozen=True):
    """A published version."""

    version: str
    published_at: str = ""
    """ISO 8601; empty if unknown."""
    status: EntryStatus = "active"


class MarketplaceEntry(_Value, frozen=True):
    """A server in its highest version, with the packages and URLs that offer it."""

    id: str
    """Made of the package and its repository, so it is the same in every source; see `entry_id`."""
    name: str
    """A reverse-DNS name (`io.github.acme/files`) or the name of a package."""
    title: str = ""
    description: str = ""
    version: str = ""
    publisher: str = ""
    """The publisher according to the name, the package or the catalog; verified no further than
    `trust` says."""
    repository: str = ""
    """The URL of the source repository; empty if unknown."""
    website: str = ""
    published_at: str = ""
    """The date of this version in ISO 8601; empty if unknown."""
    first_published_at: str = ""
    """The date of the first version in ISO 8601; empty if unknown, as for most entries."""
    updated_at: str = ""
    status: EntryStatus = "active"
    """`deleted` never leaves the store."""
    status_message: str = ""
    """A message of the publisher about the status, such as a replacement."""
    packages: tuple[PackageOffer, ...] = ()
    remotes: tuple[RemoteOffer, ...] = ()
    refused: tuple[RefusedOffer, ...] = ()
    """The offers that this program cannot use."""
    tools: tuple[OfferedTool, ...] | None = None
    """None if the tools are unknown until the server runs."""
    tags: tuple[str, ...] = ()
    versions: tuple[VersionNote, ...] = ()
    """The versions that the sources list, the highest first."""
    origins: tuple[EntryOrigin, ...] = ()

    @property
    def trust(self) -> SourceTrust:
        """Return the trust level of the least trusted origin; the lowest level without origins."""
        levels = (TRUST_LEVELS.index(origin.trust) for origin in self.origins)
        return TRUST_LEVELS[min(levels, default=0)]

    @property
    def is_reviewed(self) -> bool:
        """Return True if every source that lists the entry is trusted as `curated`."""
        return self.trust == "curated"


def entry_id(
    name: str, repository: str, packages: tuple[PackageOffer, ...], remotes: tuple[RemoteOffer, ...]
) -> str:
    """Return an id that is the same in every source, whatever name the source uses.

    It consists of the repository and the preferred package, as in
    `github.com/acme/files#npm:@acme/files`. Without a repository, that part is missing. A server
    without packages has the key of its first URL instead; without either, its name.
    """
    key = _package_key(name, packages, remotes)
    place = repository_key(repository)
    return f"{place}#{key}" if place else key


def package_key(entry: MarketplaceEntry) -> str:
    """Return the key of the preferred package, else of the first URL, else of the name."""
    return _package_key(entry.name, entry.packages, entry.remotes)


def _package_key(
    name: str, packages: tuple[PackageOffer, ...], remotes: tuple[RemoteOffer, ...]
) -> str:
    offers = sorted(packages, key=lambda offer: _PREFERENCE.index(offer.registry_type))
    keys = [*(offer.key for offer in offers), *(remote.key for remote in remotes)]
    return keys[0] if keys else f"name:{name.lower()}"


def repository_key(address: str) -> str:
    """Normalize the URL of a repository: every spelling becomes `github.com/acme/files`."""
    text = address.strip().removeprefix("git+").replace("github:", "github.com/", 1)
    _, scheme, rest = text.partition("://")
    if not scheme:
        rest = text.replace(":", "/", 1) if "@" in text else text  # git@github.com:acme/files
    rest = rest.rpartition("@")[2] if "@" in rest.partition("/")[0] else rest
    for sign in "?#":
        rest = rest.partition(sign)[0]
    parts = [part for part in rest.lower().split("/") if part]
    if parts and parts[0].startswith("www."):
        parts[0] = parts[0].removeprefix("www.")
    if parts and parts[0] in _FORGES:
        parts = parts[:3]  # a folder of a monorepo belongs to the same repository
    return "/".join(parts).removesuffix(".git")


_PREFERENCE: tuple[RegistryType, ...] = ("npm", "pypi", "nuget", "mcpb", "oci")
_FORGES = ("github.com", "codeberg.org", "bitbucket.org")
_VERSION_IN_ADDRESS = re.compile(r"[-_/]?v?\d+(?:\.\d+)+(?:-[a-z]+(?:\.\d+)?)?")


def _folded(registry_type: RegistryType, identifier: str) -> str:
    if registry_type == "pypi":  # `Acme.Files` and `acme-files` are one project
        return canonicalize_name(identifier)
    if registry_type == "mcpb":  # the address of one version
        return _VERSION_IN_ADDRESS.sub("", repository_key(identifier))
    if registry_type == "oci":
        image = identifier.lower().partition("@")[0]
        return image.removeprefix("docker.io/").removeprefix("library/")
    return identifier.lower()


# Merging entries of several sources: the same package of the same repository is one server.
#
# Names are not compared, because anyone may publish under a name first in another source. The
# entry of the highest-ranked source wins, and its offers alone are used; the others only fill its
# empty fields. The trust level is that of the least trusted source.

Rank = Callable[[str], int]
"""Maps the id of a source to its rank; the lowest rank has precedence."""
_SEMVER = re.compile(r"v?(\d{1,18}\.\d{1,18}\.\d{1,18})-([0-9A-Za-z.-]+?)(?:\+.*)?")
_LONGEST_VERSION = 200  # characters


class EntryIdentity(NamedTuple):
    """The fields that decide whether two entries are the same server."""

    source: str
    """The id of the source that lists the entry."""
    name: str
    package: str
    """The result of `package_key`."""
    repository: str
    """The result of `repository_key`; empty if the entry names no repository."""


def _identity_of(entry: MarketplaceEntry) -> EntryIdentity:
    source = entry.origins[0].source if entry.origins else ""
    return EntryIdentity(source, entry.name, package_key(entry), repository_key(entry.repository))


def merged_entries(entries: Iterable[MarketplaceEntry], rank: Rank) -> list[MarketplaceEntry]:
    """Merge the entries of each server into one, in the order in which servers first occur."""
    listed = list(entries)
    groups = group_identities(list(map(_identity_of, listed)), rank)
    return [merge_group([listed[place] for place in group]) for group in sorted(groups, key=min)]


def group_identities(identities: Sequence[EntryIdentity], rank: Rank) -> list[list[int]]:
    """Group the indices of the identities that are one server, the highest-ranked source first."""
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
    """Merge the entries of one server into one; the first entry has precedence."""
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
        tools=next((entry.tools for entry in group if entry.tools is not None), None),
        tags=tuple(dict.fromkeys(tag for entry in group for tag in entry.tags))[: bounds.TAGS],
        versions=highest_first(note for entry in group for note in entry.versions),
        origins=tuple(dict.fromkeys(origin for entry in group for origin in entry.origins)),
    )


def highest_first(notes: Iterable[VersionNote]) -> tuple[VersionNote, ...]:
    """Return each version once, the highest first, with its date if any of its notes has one.

    At most `bounds.VERSIONS` are returned.
    """
    notes_by_version: dict[str, VersionNote] = {}
    for note in notes:
        if note.version not in notes_by_version or not notes_by_version[note.version].published_at:
            notes_by_version[note.version] = note
    ordered = sorted(
        notes_by_version.values(), key=lambda note: version_key(note.version), reverse=True
    )
    return tuple(ordered[: bounds.VERSIONS])


def _by_repository(same: Sequence[int], identities: Sequence[EntryIdentity]) -> list[list[int]]:
    """Split the identities of one package by repository; all are in rank order."""
    groups: list[list[int]] = []
    # Identities with a repository make groups; one without joins a group only if a single one fits.
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
    # One source may list many servers that the same package starts, such as a bridge to remote
    # servers, so two entries of one source are never merged.
    return is_same_place and identity.source not in {member.source for member in group}


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def version_key(version: str) -> tuple[int, Version, tuple[tuple[int, int, str], ...], str]:
    """Return a sort key for a version of SemVer or PEP 440; any other text sorts below these."""
    text = version.strip()[:_LONGEST_VERSION]
    try:
        if match := _SEMVER.fullmatch(text):  # pre-releases of SemVer sort by its own rules
            before = tuple(
                (0, int(part), "") if part.isdecimal() else (1, 0, part)
                for part in match[2].split(".")
            )
            return (1, Version(f"{match[1]}rc0"), before, "")
        parsed = Version(text)
        return (1, Version(parsed.public), (), "")
    except InvalidVersion:
        return (0, Version("0"), (), text)
