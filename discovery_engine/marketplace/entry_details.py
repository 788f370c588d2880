"""The details of one entry: warnings before it is installed, and the programs that it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.quantities import ago
from discovery_engine._util.text import named, quoted
from discovery_engine.errors import Diagnostic
from discovery_engine.errors.codes import Severity
from discovery_engine.marketplace.entry import (
    Input,
    MarketplaceEntry,
    PackageOffer,
    highest_first,
    repository_key,
)
from discovery_engine.marketplace.package_managers.manager_command import (
    Prerequisite,
    Prerequisites,
)
from discovery_engine.marketplace.package_names import PACKAGE_KINDS, checked_version
from discovery_engine.marketplace.source import LiveSource, SourceFailure
from discovery_engine.trust import scanner

_GRAVITY: tuple[Severity, ...] = ("error", "warning", "info")


class EntryDetails(Struct, frozen=True):
    """An entry before its installation, with warnings and prerequisites."""

    entry: MarketplaceEntry
    """The entry, completed with facts from its package managers."""
    warnings: tuple[Diagnostic, ...] = ()
    """The warnings, the most severe first."""
    prerequisites: tuple[Prerequisite, ...] = ()
    """The programs that start its packages."""
    problems: tuple[Diagnostic, ...] = ()
    """Failures to look up facts."""


def at_version(entry: MarketplaceEntry, version: str) -> MarketplaceEntry:
    """Return the entry with another version of its packages, which may not exist.

    Remotes and bundles are left out, because they belong to one version.

    Raises:
        InvalidPackageNameError: If `version` is no exact version.
    """
    packages = tuple(
        replace(offer, version=checked_version(offer.registry_type, version), integrity="")
        for offer in entry.packages
        if offer.registry_type != "mcpb"  # its URL is that of one version
    )
    dates = {note.version: note.published_at for note in entry.versions}
    published = dates.get(version, "")
    return replace(entry, version=version, packages=packages, published_at=published, remotes=())


def with_published(
    entry: MarketplaceEntry, published: Sequence[MarketplaceEntry], version: str
) -> MarketplaceEntry:
    """Return the entry with all published versions, changed to `version` if that is one of them.

    Args:
        entry: The copied entry, of the highest version only.
        published: All versions in its registry; empty if the registry could not be read.
        version: The requested version; empty for the entry's own.
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
    """Complete an entry with facts from package managers, and collect warnings about it.

    Args:
        entry: The entry from the sources.
        managers: The package managers to use, by type of package; empty without a network.
        prerequisites: The programs of this machine.
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
    kinds = (PACKAGE_KINDS[offer.registry_type] for offer in entry.packages)
    programs = [program for kind in kinds for program in kind.programs]
    return EntryDetails(
        entry,
        warnings=tuple(sorted(warnings, key=lambda warning: _GRAVITY.index(warning.severity))),
        prerequisites=await prerequisites.probe(programs),
        problems=tuple(problems),
    )


# An entry compared with the facts of its package manager.
#
# A registry lists what publishers submit; the package itself may be missing, deprecated, without a
# program, or from another repository.

_MANAGERS = {"npm": "npm", "pypi": "PyPI"}


def _is_from(source: LiveSource, entry: MarketplaceEntry, offer: PackageOffer) -> bool:
    """Return whether the entry comes from this package manager only, so a look-up adds nothing."""
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
    """Return the entry with gaps filled from the package manager; a refused offer is removed."""
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


# Warnings for the owner before an installation, for example: published yesterday, one letter from a
# well-known name, no repository, a withdrawn version, orders to a model in the description.

_FILE = Path(__file__).with_name("known_packages.json")


class KnownPackages(Struct, frozen=True):
    """The purpose of each known package, by its name."""

    date: str
    """The date of the last check of the list, in ISO 8601."""
    pypi: Mapping[str, str]
    npm: Mapping[str, str]
    etag: str = ""
    """Changes with the list."""

    def of(self, registry_type: str) -> Mapping[str, str]:
        """Return the known packages of a registry; empty if the list does not cover it."""
        return {"npm": self.npm, "pypi": self.pypi}.get(registry_type, {})


@cache
def known_packages() -> KnownPackages:
    content = _FILE.read_bytes()
    return KnownPackages(**json.loads(content), etag=f"{crc32(content):08x}")


_NEW = 14 * 86_400.0
"""Seconds. Most malicious packages are reported and withdrawn within days."""
_FRESH = 2 * 86_400.0  # seconds; most hijacked versions are discovered within these
_MIN_LOOKALIKE_LENGTH = 5  # letters; among shorter names, one letter makes another word
_MENTIONS = re.compile(
    r"(?<![A-Za-z])(?:fast)?mcp(?![a-z])|model[ _-]?context[ _-]?protocol", re.IGNORECASE
)
_LOOKALIKES = (
    ("rn", "m"),
    ("vv", "w"),
    ("cl", "d"),
    ("0", "o"),
    ("1", "l"),
    ("5", "s"),
    ("i", "l"),
)


class SuspiciousText(Diagnostic, frozen=True, kw_only=True):
    """A publisher's text with a finding of the scanner."""

    is_severe: bool = False
    """True if no honest publisher writes such a text."""

    @property
    def severity(self) -> Severity:
        return "error" if self.is_severe else "warning"


def entry_warnings(
    entry: MarketplaceEntry, *, now: float, known: KnownPackages | None = None
) -> tuple[Diagnostic, ...]:
    """Return the warnings about an entry, each once, in a fixed order of subjects.

    Args:
        entry: The entry.
        now: Unix time in seconds.
        known: The names that others may imitate; by default the list in the package.
    """
    known = known or known_packages()
    warnings = [
        *_in_texts(entry),
        *_about_names(entry, known),
        *_about_status(entry),
        *_about_age(entry, now),
        *_about_origin(entry, known),
        *_about_offers(entry),
    ]
    return tuple(dict.fromkeys(warnings))


def imitated_name(name: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the well-known name that `name` resembles, and how; both empty if there is none."""
    names = tuple(names)
    if name.lower() in {other.lower() for other in names}:
        return "", ""
    for judge in (_reads_alike, _is_a_typo, _has_its_words, _has_its_name_elsewhere):
        for other in names:
            if reason := judge(name.lower(), other.lower()):
                return other, reason
    return "", ""


def _reads_alike(name: str, other: str) -> str:
    return "it reads like" if _skeleton(name) == _skeleton(other) else ""


def _is_a_typo(name: str, other: str) -> str:
    from jellyfish import damerau_levenshtein_distance  # noqa: PLC0415 - only to look at an entry

    scope, _, unscoped = name.rpartition("/")
    other_scope, _, other_unscoped = other.rpartition("/")
    for mine, theirs, is_rest_same in (
        (name, other, True),
        (scope, other_scope, unscoped == other_unscoped),
        (unscoped, other_unscoped, scope == other_scope),
    ):
        if (
            is_rest_same
            and len(theirs) >= _MIN_LOOKALIKE_LENGTH
            and damerau_levenshtein_distance(mine, theirs) == 1
        ):
            return "it is one letter from"
    return ""


def _has_its_words(name: str, other: str) -> str:
    return "it has the words of" if _words(name) == _words(other) else ""


def _has_its_name_elsewhere(name: str, other: str) -> str:
    scope, _, unscoped = name.rpartition("/")
    other_scope, _, other_unscoped = other.rpartition("/")
    is_telling = len(_words(other_unscoped) - {"mcp", "server"}) > 0
    if is_telling and other_scope and unscoped == other_unscoped and scope != other_scope:
        return "it has the name of" if scope else "it lacks the scope of"
    return ""


def _skeleton(name: str) -> str:
    for seen, meant in _LOOKALIKES:
        name = name.replace(seen, meant)
    return name


def _words(name: str) -> frozenset[str]:
    return frozenset(word for word in re.split(r"[^a-z0-9]+", name.lower()) if word)


def _about_names(entry: MarketplaceEntry, packages: KnownPackages) -> Iterator[Diagnostic]:
    for offer in entry.packages:
        other, reason = imitated_name(offer.identifier, packages.of(offer.registry_type))
        if other:
            yield Diagnostic(
                "OFFER_LOOKALIKE",
                f"{offer.identifier!r} may be mistaken for {other!r}: {reason} that well-known one",
                f"check which of the two you mean: `discovery marketplace show {other}`",
            )


def _about_status(entry: MarketplaceEntry) -> Iterator[Diagnostic]:
    if entry.status != "active":
        words = f": {quoted(entry.status_message)}" if entry.status_message else ""
        yield Diagnostic(
            "OFFER_DEPRECATED",
            f"it is {entry.status}{words}",
            "look for what its publisher names instead",
        )


def _about_age(entry: MarketplaceEntry, now: float) -> Iterator[Diagnostic]:
    first = _unix_time(entry.first_published_at)
    if first and now - first < _NEW:
        yield Diagnostic(
            "OFFER_NEW",
            f"it was first published {ago(now - first)} ago",
            "look at its repository and its publisher first",
        )
        return
    latest = _unix_time(entry.published_at)
    if latest and now - latest < _FRESH:
        yield Diagnostic(
            "OFFER_NEW",
            f"version {entry.version} was published {ago(now - latest)} ago",
            "an older version may be the safer choice",
        )


def _about_origin(entry: MarketplaceEntry, packages: KnownPackages) -> Iterator[Diagnostic]:
    if not entry.repository and entry.version:  # a bare name comes without facts
        yield Diagnostic(
            "OFFER_NO_REPOSITORY",
            "it names no repository, so its source cannot be read",
            "install it only if you know its publisher",
        )
    if entry.trust == "unreviewed" and not _is_about_mcp(entry, packages):
        yield Diagnostic(
            "OFFER_UNRELATED",
            "nothing in its name and description says that it is an MCP server",
            "check its documentation; starting another program is of no use",
        )
    if not entry.is_reviewed:
        but = "" if entry.trust == "unreviewed" else " except by its publisher"
        yield Diagnostic(
            "OFFER_UNREVIEWED", f"not reviewed{but}", "read its source, or run it in a sandbox"
        )


def _is_about_mcp(entry: MarketplaceEntry, packages: KnownPackages) -> bool:
    """Return whether its publisher, a registry of servers or our list calls it an MCP server."""
    if (
        entry.tools
        or entry.remotes
        or entry.name not in {offer.identifier for offer in entry.packages}
    ):
        return True  # a registry of servers lists it under a name of its own
    if any(offer.identifier in packages.of(offer.registry_type) for offer in entry.packages):
        return True
    texts = (entry.name, entry.title, entry.description, entry.repository, *entry.tags)
    return any(mentions_mcp(text) for text in texts)


def mentions_mcp(text: str) -> bool:
    return _MENTIONS.search(text) is not None


def _about_offers(entry: MarketplaceEntry) -> Iterator[Diagnostic]:
    for refused in entry.refused:
        what = f"{refused.registry_type} {refused.identifier}".strip()
        yield Diagnostic("OFFER_REFUSED", f"{what!r} cannot be used: {refused.reason}")
    for offer in entry.packages:
        if offer.registry_url:
            yield Diagnostic(
                "OFFER_OTHER_REGISTRY",
                f"{offer.identifier!r} is meant to come from {offer.registry_url!r}",
                "your package manager asks the registry of its own settings",
            )


def _in_texts(entry: MarketplaceEntry) -> Iterator[Diagnostic]:
    for where, text in _texts(entry):
        for finding in scanner.alarms(scanner.scan_text(text, where=where)):
            yield SuspiciousText(
                finding.code,
                f"{finding.message}: {quoted(finding.excerpt)}",
                "do not install it unless you understand why this is there",
                subject=where,
                is_severe=finding.is_severe,
            )


def _texts(entry: MarketplaceEntry) -> Iterator[tuple[str, str]]:
    """Yield the publisher's texts that a person or a model may read, with their places."""
    yield from (
        ("name", entry.name),
        ("title", entry.title),
        ("description", entry.description),
        ("status message", entry.status_message),
        ("tags", " ".join(entry.tags)),
    )
    for tool in entry.tools or ():
        yield f"tool {named(tool.name)}", f"{tool.name}: {tool.description}"
    for offer in entry.packages:
        yield from _texts_of_inputs(offer.identifier, inputs_of(offer))
    for remote in entry.remotes:
        yield from _texts_of_inputs("remote", (*remote.headers, *remote.variables))


def _texts_of_inputs(whose: str, inputs: Iterable[Input]) -> Iterator[tuple[str, str]]:
    for offered_input in inputs:
        texts = (
            offered_input.name,
            offered_input.description,
            offered_input.placeholder,
            offered_input.default,
            *offered_input.choices,
        )
        yield f"input {named(offered_input.name)} of {named(whose)}", " ".join(filter(None, texts))
        yield from _texts_of_inputs(whose, offered_input.variables)


def inputs_of(offer: PackageOffer) -> tuple[Input, ...]:
    """Return all inputs of an offer."""
    transport = (*offer.transport.headers, *offer.transport.variables)
    return (*offer.runtime_arguments, *offer.package_arguments, *offer.environment, *transport)


def _unix_time(text: str) -> float:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return date.replace(tzinfo=date.tzinfo or UTC).timestamp()
