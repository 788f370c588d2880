"""Packages as entries of the marketplace: what npm, pip and uv say of one, cut to its bounds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

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
from discovery_engine.marketplace.package_managers.npm import NpmPackage
from discovery_engine.marketplace.package_managers.python_packages import PythonPackage

_RUNTIMES: dict[RegistryType, str] = {"npm": "npx", "pypi": "uvx"}
_FORGE = re.compile(r"https?://(?:www\.)?(?:github\.com|gitlab\.com|codeberg\.org)/[^/]+/[^/]+")
NO_PROGRAM = "it has no program that could be started (no `bin`)"


def npm_entry(package: NpmPackage, origin: EntryOrigin) -> MarketplaceEntry:
    """One version of an npm package; without a program it is an entry with a refused offer."""
    offer = PackageOffer(
        "npm", package.name, package.version, _RUNTIMES["npm"], integrity=package.integrity
    )
    packages = (offer,) if package.programs else ()
    repository = _repository(package)
    dates = {version: _date(at) for version, at in package.published.items()}
    return MarketplaceEntry(
        id=entry_id(package.name, repository, (offer,), ()),
        name=package.name,
        description=package.description[: bounds.TEXT],
        version=package.version,
        publisher=package.publisher[: bounds.NAME],
        repository=repository,
        website=_address(package.homepage),
        published_at=dates.get(package.version, ""),
        first_published_at=_date(min(package.published.values(), default=0.0)),
        updated_at=dates.get(package.version, ""),
        status="deprecated" if package.deprecated else "active",
        status_message=package.deprecated[: bounds.TEXT],
        packages=packages,
        refused=() if packages else (RefusedOffer("npm", package.name, NO_PROGRAM),),
        tags=tuple(word[: bounds.NAME] for word in package.keywords[: bounds.TAGS]),
        versions=tuple(
            VersionNote(version, dates.get(version, ""))
            for version in list(reversed(package.versions))[: bounds.VERSIONS]
        ),
        origins=(origin,),
    )


def python_entry(package: PythonPackage, origin: EntryOrigin) -> MarketplaceEntry:
    """One version of a Python package. What was yanked is deprecated, with the reason."""
    offer = PackageOffer(
        "pypi", package.name, package.version, _RUNTIMES["pypi"], integrity=package.integrity
    )
    repository = _repository(package)
    yanked = f"this version was yanked: {package.yanked}" if package.yanked else ""
    date = _date(package.published_at)
    versions = package.versions[: bounds.VERSIONS]
    return MarketplaceEntry(
        id=entry_id(package.name, repository, (offer,), ()),
        name=package.name,
        description=package.summary[: bounds.TEXT],
        version=package.version,
        publisher=package.publisher[: bounds.NAME],
        repository=repository,
        website=_address(package.homepage),
        published_at=date,
        updated_at=date,
        status="deprecated" if yanked else "active",
        status_message=yanked[: bounds.TEXT],
        packages=(offer,),
        tags=tuple(word[: bounds.NAME] for word in package.keywords[: bounds.TAGS]),
        versions=tuple(
            VersionNote(one, date if one == package.version else "") for one in versions
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
    """A package of which little more than the name is known."""
    offer = PackageOffer(registry_type, name, version, _RUNTIMES[registry_type])
    return MarketplaceEntry(
        id=entry_id(name, "", (offer,), ()),
        name=name,
        description=description[: bounds.TEXT],
        version=version,
        packages=(offer,),
        origins=(origin,),
    )


def _date(at: float) -> str:
    """ISO 8601 of a Unix time in seconds; empty for 0, and for what no calendar has."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z") if at else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _repository(package: NpmPackage | PythonPackage) -> str:
    """The repository that it names, or its home page if that is one."""
    homepage = _address(package.homepage)
    return _address(package.repository) or (homepage if _FORGE.match(homepage) else "")


def _address(text: str) -> str:
    """An address of the web; the short form of npm, `github:acme/files`, is written out."""
    if short := re.fullmatch(r"(?:github:)?([\w.-]+/[\w.-]+)", text):
        text = f"https://github.com/{short[1]}"
    text = re.sub(r"^(?:git|ssh|git\+ssh|git\+https)://(?:git@)?", "https://", text)
    is_web = text.lower().startswith(("https://", "http://")) and not re.search(r"\s", text)
    return text if is_web and len(text) <= bounds.ADDRESS else ""
