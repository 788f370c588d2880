"""npm and PyPI as sources of the marketplace, queried through the user's package managers.

Because a search waits for them, they have a time limit, after which the results so far are used.
Published packages are not reviewed. A search reads metadata and never downloads a package.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import ClassVar, Generic, TypeVar

import anyio

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.marketplace_settings import MarketplaceSettings, MarketplaceSource
from discovery_engine.errors import (
    InvalidPackageNameError,
    PackageManagerError,
    PackageNotFoundError,
)
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import (
    EntryOrigin,
    MarketplaceEntry,
    PackageOffer,
    RefusedOffer,
    RegistryType,
    VersionNote,
    entry_id,
)
from discovery_engine.marketplace.entry_details import known_packages, mentions_mcp
from discovery_engine.marketplace.package_managers.manager_command import Environ, PublishedPackage
from discovery_engine.marketplace.package_managers.npm import Npm, NpmHit
from discovery_engine.marketplace.package_managers.python_packages import PythonPackages
from discovery_engine.marketplace.package_names import PACKAGE_KINDS, identifier_problem
from discovery_engine.marketplace.source import (
    LiveSource,
    PageReader,
    SourceFailure,
    SourcePage,
    SyncedSource,
    SyncPoint,
)

TIME_LIMIT = 3.0
"""Seconds that a search waits for package managers; `npm search` takes at least one."""
_CHECKED = 6  # packages per search whose metadata are read, at 0.3 s of CPU each
_MAX_CONCURRENT_LOOKUPS = 3
_SIZE = 20  # results of each of the two queries to npm
_WORDS = 5  # words of a query; with more, npm finds less
_FILLING = re.compile(
    r"an?|all|and|any|are|at|by|can|do|for|from|get|has|have|i|in|into|is|it|me|mcp|my|need|of|on"
    r"|or|please|servers?|some|something|that|the|this|to|tools?|use|want|with"
)
"""Words that say nothing about a package."""
_Manager = TypeVar("_Manager", Npm, PythonPackages)
_NAME_LIKE = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._/-]*")


class _PackageManagerSource(ABC, Generic[_Manager]):
    """Base class of package managers as live sources."""

    kind: ClassVar[RegistryType]
    program: ClassVar[str]
    """The name of the program in messages."""

    def __init__(
        self, settings: MarketplaceSource, manager: _Manager, *, time_limit: float = TIME_LIMIT
    ) -> None:
        self.settings = settings
        self._origin = EntryOrigin(settings.name, settings.trusted_as)
        self._manager: _Manager = manager
        self._time_limit = time_limit

    async def search(self, query: str, *, limit: int) -> Sequence[MarketplaceEntry]:
        """Return at most six packages, or `limit`, that were found within the time limit.

        Raises:
            SourceFailure: If nothing was found before the time limit, or the package manager failed
                without a result.
        """
        entries: dict[str, MarketplaceEntry] = {}
        with anyio.move_on_after(self._time_limit) as scope, _failures():
            await self._search(query, min(limit, _CHECKED), entries)
        if scope.cancelled_caught and not entries:
            reason = f"{self.program} did not answer within {self._time_limit:g} s"
            raise SourceFailure("MARKETPLACE_SOURCE_UNAVAILABLE", reason)
        return tuple(entries.values())

    async def lookup(self, name: str, version: str = "") -> MarketplaceEntry | None:
        """Return the entry of a package; None if it does not exist or the name is invalid.

        Raises:
            SourceFailure: If the package manager is missing or fails.
        """
        with _failures():
            return package_entry(self.kind, await self._manager.view(name, version), self._origin)
        return None

    @abstractmethod
    async def _search(self, query: str, most: int, entries: dict[str, MarketplaceEntry]) -> None:
        """Add at most `most` packages that match a query to `entries`, by name."""


class NpmSource(_PackageManagerSource[Npm]):
    """npm: results of `npm search`, and the package with exactly the name of the query."""

    kind = "npm"
    program = "npm"

    async def _search(self, query: str, most: int, entries: dict[str, MarketplaceEntry]) -> None:
        hits: list[NpmHit] = []
        problems: list[PackageManagerError] = []

        async def ask(text: str) -> None:
            try:
                hits.extend(await self._manager.search(text, limit=_SIZE))
            except PackageManagerError as error:
                problems.append(error)

        if not (words := _telling_words(query)):
            return
        async with open_task_group() as tasks:
            tasks.start_soon(ask, f"{words} keywords:mcp")
            tasks.start_soon(ask, f"{words} mcp")
            if name := exact_name("npm", query):
                await self._check([name], entries)
        names = dict.fromkeys(hit.name for hit in hits if _is_about_mcp(hit))
        await self._check([name for name in names if name not in entries][:most], entries)
        if problems and not entries:
            raise problems[0]

    async def _check(self, names: Iterable[str], entries: dict[str, MarketplaceEntry]) -> None:
        """Add the packages among `names` that exist and have a program."""
        at_once = anyio.CapacityLimiter(_MAX_CONCURRENT_LOOKUPS)

        async def look_up(name: str) -> None:
            async with at_once:
                with suppress(SourceFailure):  # one failed look-up must not hide the other results
                    entry = await self.lookup(name)
                    if entry is not None and entry.packages:
                        entries[name] = entry

        async with open_task_group() as tasks:
            for name in names:
                tasks.start_soon(look_up, name)


class PyPISource(_PackageManagerSource[PythonPackages]):
    """PyPI, which has no search: only the package with exactly the name of the query is found."""

    kind = "pypi"
    program = "pip"

    async def _search(self, query: str, most: int, entries: dict[str, MarketplaceEntry]) -> None:  # noqa: ARG002 - at most one is found
        if not (name := exact_name("pypi", query)):
            return
        with suppress(PackageNotFoundError):
            versions = await self._manager.versions(name)  # needs no wheel
            purpose = known_packages().pypi.get(name, "")
            entries[name] = named_entry(
                "pypi", name, description=purpose, version=versions[0], origin=self._origin
            )


class KnownPackagesSource(SyncedSource):
    """The well-known packages of npm or PyPI, from the list that ships with the program."""

    def __init__(self, settings: MarketplaceSource) -> None:
        super().__init__(settings)
        self.is_local = True

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PageReader]:
        yield self._read

    async def _read(self, point: SyncPoint) -> SourcePage:
        """Return the whole list as one page."""
        packages = known_packages()
        if point.etag == packages.etag:
            return SourcePage(etag=packages.etag, is_unchanged=True)
        kind: RegistryType = "npm" if self.settings.type == "npm" else "pypi"
        entries = tuple(
            named_entry(kind, name, description=purpose, origin=self.origin)
            for name, purpose in packages.of(kind).items()
        )
        return SourcePage(entries, etag=packages.etag)


def live_sources(settings: MarketplaceSettings, environ: Environ) -> list[LiveSource]:
    """Return the enabled sources that are package managers."""
    sources: list[LiveSource] = []
    for source in settings.active_sources:
        if source.type == "npm":
            sources.append(NpmSource(source, Npm(environ)))
        elif source.type == "pypi":
            sources.append(PyPISource(source, PythonPackages(environ)))
    return sources


def exact_name(registry_type: RegistryType, query: str) -> str:
    """Return the query if it looks like the name of a package; empty otherwise.

    A plain word such as `weather` usually states a topic, and the package of that name is rarely a
    server. So a name must contain a scope, a punctuation mark or `mcp`.
    """
    query = query.strip()
    if not _NAME_LIKE.fullmatch(query) or identifier_problem(registry_type, query):
        return ""
    return query if re.search(r"[@._/-]|mcp", query, re.IGNORECASE) else ""


@contextmanager
def _failures() -> Iterator[None]:
    """Convert a failed package manager to `SourceFailure`; a missing package is ignored."""
    try:
        yield
    except (InvalidPackageNameError, PackageNotFoundError):
        return
    except PackageManagerError as error:
        raise SourceFailure(
            "MARKETPLACE_SOURCE_UNAVAILABLE", error.message, hint=error.hint
        ) from error


def _telling_words(query: str) -> str:
    words = re.findall(r"[\w@][\w.@/-]*", query)
    telling = [word for word in words if not _FILLING.fullmatch(word.lower())]
    return " ".join((telling or words)[:_WORDS])


def _is_about_mcp(hit: NpmHit) -> bool:
    return any(map(mentions_mcp, (hit.name, hit.description, *hit.keywords)))


# Conversion of package metadata to entries; texts are cut to the bounds of the marketplace.

_FORGE = re.compile(r"https?://(?:www\.)?(?:github\.com|gitlab\.com|codeberg\.org)/[^/]+/[^/]+")
NO_PROGRAM = "it has no program that could be started (no `bin`)"


def package_entry(
    kind: RegistryType, package: PublishedPackage, origin: EntryOrigin
) -> MarketplaceEntry:
    """Return the entry of a package version; an npm package without a program is refused."""
    offer = PackageOffer(
        kind,
        package.name,
        package.version,
        PACKAGE_KINDS[kind].runtime,
        integrity=package.integrity,
    )
    has_program = kind == "pypi" or bool(package.programs)
    repository = _repository(package)
    dates = {version: _date(at) for version, at in package.published.items()}
    is_yanked = kind == "pypi" and package.withdrawn
    message = f"this version was yanked: {package.withdrawn}" if is_yanked else package.withdrawn
    return MarketplaceEntry(
        id=entry_id(package.name, repository, (offer,), ()),
        name=package.name,
        description=package.description[: bounds.TEXT],
        version=package.version,
        publisher=package.publisher[: bounds.NAME],
        repository=repository,
        website=_address(package.homepage),
        published_at=dates.get(package.version, ""),
        # The metadata of a Python package have no dates of other versions.
        first_published_at="" if kind == "pypi" else min(dates.values(), default=""),
        updated_at=dates.get(package.version, ""),
        status="deprecated" if message else "active",
        status_message=message[: bounds.TEXT],
        packages=(offer,) if has_program else (),
        refused=() if has_program else (RefusedOffer(kind, package.name, NO_PROGRAM),),
        tags=tuple(word[: bounds.NAME] for word in package.keywords[: bounds.TAGS]),
        versions=tuple(
            VersionNote(version, dates.get(version, ""))
            for version in package.versions[: bounds.VERSIONS]
        ),
        origins=(origin,),
    )


def named_entry(
    registry_type: RegistryType,
    name: str,
    *,
    description: str,
    origin: EntryOrigin,
    version: str = "",
) -> MarketplaceEntry:
    """Return the entry of a package from its name, without reading its metadata."""
    offer = PackageOffer(registry_type, name, version, PACKAGE_KINDS[registry_type].runtime)
    return MarketplaceEntry(
        id=entry_id(name, "", (offer,), ()),
        name=name,
        description=description[: bounds.TEXT],
        version=version,
        packages=(offer,),
        origins=(origin,),
    )


def _date(at: float) -> str:
    """Format a Unix time in seconds as ISO 8601; empty for 0 and for times out of range."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z") if at else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _repository(package: PublishedPackage) -> str:
    """Return the URL of the repository, or of the home page if it is on a known forge."""
    homepage = _address(package.homepage)
    return _address(package.repository) or (homepage if _FORGE.match(homepage) else "")


def _address(text: str) -> str:
    """Normalize a web URL, also in the npm shorthand `github:acme/files`; empty if it is none."""
    if short := re.fullmatch(r"(?:github:)?([\w.-]+/[\w.-]+)", text):
        text = f"https://github.com/{short[1]}"
    text = re.sub(r"^(?:git|ssh|git\+ssh|git\+https)://(?:git@)?", "https://", text)
    is_web = text.lower().startswith(("https://", "http://")) and not re.search(r"\s", text)
    return text if is_web and len(text) <= bounds.ADDRESS else ""
