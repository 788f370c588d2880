"""The section `marketplace` after validation: sources, and how often they are queried.

No field declares a permission, so only the owner can set any of it: a file of untrusted origin
could send a secret in a header to an address of its choice, or present servers as reviewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import field
from msgspec.structs import replace

from discovery_engine.config.settings_section import (
    SettingsSection,
    Values,
)

SourceType: TypeAlias = Literal["mcp-registry", "docker-catalog", "npm", "pypi", "file"]
SourceTrust: TypeAlias = Literal["official", "curated", "unreviewed"]

OFFICIAL_REGISTRY = "https://registry.modelcontextprotocol.io"
HOUR = 3600.0  # seconds; the official registry asks for at most one synchronisation per hour


class MarketplaceSource(SettingsSection, frozen=True):
    """A place where servers of others are looked for."""

    type: Annotated[SourceType, Values(examples=["mcp-registry"])]
    """A registry that speaks the API of the official one (`mcp-registry`), a catalog of Docker
    (`docker-catalog`), the user's package managers (`npm`, `pypi`), or a list of your own
    (`file`)."""
    # Empty for the name of its type, or `official`.
    id: Annotated[str, Values(examples=["acme"])] = ""
    """What the source is called."""

    url: Annotated[str, Values(examples=["https://registry.acme.example"])] = ""
    """The address; of a registry the part before `/v0.1`. A registry without one is the official
    registry."""
    path: Annotated[str, Values(examples=["team-servers.yaml"])] = ""
    """A file in the place of an address; a relative path starts at the folder of this file."""
    headers: Annotated[
        Mapping[str, str], Values(examples=[{"Authorization": "Bearer ${ACME_TOKEN}"}])
    ] = field(default_factory=dict)
    """Headers of each request to the address. Refer to a key, do not write it."""
    priority: Annotated[int, Values(ge=-1000, le=1000, examples=[10])] = 0
    """Which source's description of a server counts if several have it: the highest one's, then the
    first one's."""
    # None for the default of its type.
    trust: Annotated[SourceTrust | None, Values(examples=["curated"])] = None
    """How far the source is trusted: its servers were selected by a reviewer you trust (`curated`),
    it verifies who owns a name (`official`), or neither (`unreviewed`)."""

    private: Annotated[bool, Values(examples=[True])] = False
    """Allow an address in your private network."""
    enabled: Annotated[bool, Values(examples=[False])] = True
    """Whether the source is used."""

    @property
    def name(self) -> str:
        """The id; by default `official` or the name of the type."""
        if self.id:
            return self.id
        return "official" if self.type == "mcp-registry" and not self.url else self.type

    @property
    def address(self) -> str:
        """The URL, including the default one; empty for files and package managers."""
        if self.type == "mcp-registry":
            return self.url or OFFICIAL_REGISTRY
        return self.url

    @property
    def trusted_as(self) -> SourceTrust:
        """The trust in the source: the setting, or the default of its type."""
        if self.trust:
            return self.trust
        if self.type in ("docker-catalog", "file"):
            return "curated"
        is_official = self.type == "mcp-registry" and self.address == OFFICIAL_REGISTRY
        return "official" if is_official else "unreviewed"


DEFAULT_SOURCES = (
    MarketplaceSource("mcp-registry"),
    MarketplaceSource("npm"),
    MarketplaceSource("pypi"),
)


class MarketplaceSettings(SettingsSection, frozen=True):
    """Where `discovery marketplace` looks for servers, and how often it asks there."""

    sources: Annotated[
        tuple[MarketplaceSource, ...],
        Values(
            examples=[[{"type": "mcp-registry"}, {"type": "file", "path": "team-servers.yaml"}]]
        ),
    ] = DEFAULT_SOURCES
    """The places to look at, instead of the official registry, npm and PyPI."""
    sync_every: Annotated[float, Values(ge=60, le=7 * 86_400, examples=[86_400])] = HOUR
    """Seconds after which a source is asked again for what has changed; the official registry is
    asked once an hour at most."""

    @property
    def active_sources(self) -> tuple[MarketplaceSource, ...]:
        """The enabled sources, by descending priority."""
        return tuple(
            sorted(
                (source for source in self.sources if source.enabled),
                key=lambda source: -source.priority,
            )
        )

    def without_headers(self) -> MarketplaceSettings:
        """Return the settings without headers, which may contain secrets."""
        if not any(source.headers for source in self.sources):
            return self
        return replace(self, sources=tuple(replace(source, headers={}) for source in self.sources))
