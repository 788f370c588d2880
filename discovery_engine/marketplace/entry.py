"""An entry of the marketplace: a server as its publisher, or a catalog, describes it.

Everything in it is data of strangers. Texts are as they were published, invisible characters
included, for a scanner has to see them; they are cleaned before they are shown (`_util.text`). What
was parsed keeps to the bounds of `marketplace.bounds`, and identifiers of packages to the grammar
of their registry (`marketplace.package_names`).
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
"""The least trusted first. `official`: the registry verified that the publisher owns the name, and
the server was not reviewed; `curated`: it was chosen by a source that the owner relies on."""


class _Value(Struct, frozen=True, omit_defaults=True):
    """Base class of the values that are stored with an entry."""


class Input(_Value, frozen=True):
    """A value that a server is started with: an argument, a variable, a header, or a part of one.

    Either `value` is given, maybe with `{names}` of `variables`; or the person who installs it is
    asked for one.
    """

    name: str
    """The name of the variable, header or flag (with its dashes); of a positional argument, the
    publisher's name for it, which may be empty."""
    kind: InputKind
    value: str = ""
    """Fixed by the publisher; each `{name}` in it stands for one of `variables`."""
    description: str = ""
    default: str = ""
    placeholder: str = ""
    """An example for the person who is asked."""
    choices: tuple[str, ...] = ()
    """The only values that may be given; any if there are none."""
    format: InputFormat = "string"
    variables: tuple[Input, ...] = ()
    """The values that the `{names}` in `value` stand for."""
    is_required: bool = False
    is_secret: bool = False
    is_repeated: bool = False
    """Several values may be given, each of which repeats the argument."""

    @property
    def asked(self) -> tuple[Input, ...]:
        """The inputs that a person may be asked for: this one, or the variables in its value."""
        if self.value:
            return self.variables
        return (self,)


class OfferedTransport(_Value, frozen=True):
    """How a server that was started from a package is spoken to."""

    type: TransportType = "stdio"
    url: str = ""
    """Template; empty with stdio."""
    headers: tuple[Input, ...] = ()
    variables: tuple[Input, ...] = ()


class PackageOffer(_Value, frozen=True):
    """A package from which the server can be started on this machine."""

    registry_type: RegistryType
    identifier: str
    """The name in its registry; of `mcpb` the address of the file; of `oci` the image, without a
    tag or a digest."""
    version: str = ""
    """Exact; empty if the publisher gives none (`oci` has it in its tag)."""
    runtime_hint: str = ""
    """`npx`, `uvx`, `docker` or `dnx`: what the publisher says, or the usual one of its type."""
    runtime_arguments: tuple[Input, ...] = ()
    package_arguments: tuple[Input, ...] = ()
    environment: tuple[Input, ...] = ()
    transport: OfferedTransport = OfferedTransport()
    integrity: str = ""
    """The digest from its source, such as `sha512-…` or `sha256:…`; empty if it gives none."""
    registry_url: str = ""
    """Another registry than the usual one of its type; empty for that one."""

    @property
    def key(self) -> str:
        """The same for every spelling of the package, whatever its version: `npm:@acme/files`."""
        return f"{self.registry_type}:{_folded(self.registry_type, self.identifier)}"


class RemoteOffer(_Value, frozen=True):
    """An address at which the server runs already."""

    type: TransportType
    url: str
    """Template: each `{name}` in it stands for one of `variables`."""
    headers: tuple[Input, ...] = ()
    variables: tuple[Input, ...] = ()

    @property
    def key(self) -> str:
        return f"remote:{self.url.rstrip('/')}"


class RefusedOffer(_Value, frozen=True):
    """An offer that cannot be used, and why; it is shown, and never installed."""

    registry_type: str
    identifier: str
    reason: str


class OfferedTool(_Value, frozen=True):
    name: str
    description: str = ""


class EntryOrigin(_Value, frozen=True):
    """A source that has the entry."""

    source: str
    """Its id, as in the configuration."""
    trust: SourceTrust


class VersionNote(_Value, frozen=True):
    """A version that was published."""

    version: str
    published_at: str = ""
    """ISO 8601; empty if it is not known."""
    status: EntryStatus = "active"


class MarketplaceEntry(_Value, frozen=True):
    """A server that is offered, in its highest version."""

    id: str
    """The id of the package and its repository, the same in every source; see `entry_id`."""
    name: str
    """Reverse DNS (`io.github.acme/files`), or the name of a package."""
    title: str = ""
    description: str = ""
    version: str = ""
    publisher: str = ""
    """Whom the name, the package or the catalog names; not verified beyond `trust`."""
    repository: str = ""
    """Address; empty if none is given."""
    website: str = ""
    published_at: str = ""
    """ISO 8601, of this version; empty if it is not known."""
    first_published_at: str = ""
    """ISO 8601, of the first version; empty if it is not known, as in most copies."""
    updated_at: str = ""
    status: EntryStatus = "active"
    """`deleted` never leaves the store."""
    status_message: str = ""
    """The publisher's own words about it, such as what to use instead."""
    packages: tuple[PackageOffer, ...] = ()
    remotes: tuple[RemoteOffer, ...] = ()
    refused: tuple[RefusedOffer, ...] = ()
    """Offers that this program cannot use."""
    tools: tuple[OfferedTool, ...] | None = None
    """None if they are not known before the server runs."""
    tags: tuple[str, ...] = ()
    versions: tuple[VersionNote, ...] = ()
    """The highest first; those that the sources mentioned."""
    origins: tuple[EntryOrigin, ...] = ()

    @property
    def trust(self) -> SourceTrust:
        """That of the least trusted origin."""
        levels = (TRUST_LEVELS.index(origin.trust) for origin in self.origins)
        return TRUST_LEVELS[min(levels, default=0)]

    @property
    def is_reviewed(self) -> bool:
        """True if every source that has the entry is trusted as `curated`."""
        return self.trust == "curated"


def entry_id(
    name: str,
    repository: str,
    packages: tuple[PackageOffer, ...],
    remotes: tuple[RemoteOffer, ...],
) -> str:
    """Return the id of an entry in every source: its repository and first package, not its name.

    `github.com/acme/files#npm:@acme/files`; without a repository the package alone; the address
    of a remote server in its place; the name if there is neither.
    """
    key = _package_key(name, packages, remotes)
    place = repository_key(repository)
    return f"{place}#{key}" if place else key


def package_key(entry: MarketplaceEntry) -> str:
    """Return a key for what an entry starts or reaches first, whatever its spelling or version."""
    return _package_key(entry.name, entry.packages, entry.remotes)


def _package_key(
    name: str, packages: tuple[PackageOffer, ...], remotes: tuple[RemoteOffer, ...]
) -> str:
    offers = sorted(packages, key=lambda offer: _PREFERENCE.index(offer.registry_type))
    keys = [*(offer.key for offer in offers), *(remote.key for remote in remotes)]
    return keys[0] if keys else f"name:{name.lower()}"


def repository_key(address: str) -> str:
    """The same for every spelling of a repository's address: `github.com/acme/files`."""
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
        parts = parts[:3]  # a folder of it, as monorepos have, is the same repository
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


# Entries of several sources that are one: the same package of the same repository, by no name.
#
# A name proves nothing: the first to publish in another source has it. What the highest source
# says counts, and only its offers; others fill what it leaves open. Trust is that of the least
# trusted.

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


def _identity_of(entry: MarketplaceEntry) -> EntryIdentity:
    source = entry.origins[0].source if entry.origins else ""
    return EntryIdentity(source, entry.name, package_key(entry), repository_key(entry.repository))


def merged_entries(entries: Iterable[MarketplaceEntry], rank: Rank) -> list[MarketplaceEntry]:
    """One entry for each server, in the order in which the first of each came."""
    listed = list(entries)
    groups = group_identities(list(map(_identity_of, listed)), rank)
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
