"""The section `marketplace` as the rest of the engine sees it: sources, and how often to ask them.

No field declares a permission, so that all of it is the owner's alone: a file of untrusted origin
could send a secret in a header to an address of its choice, or present servers as reviewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import field
from msgspec.structs import replace

from discovery_engine.config.settings_section import SettingsSection

SourceType: TypeAlias = Literal["mcp-registry", "docker-catalog", "npm", "pypi", "file"]
SourceTrust: TypeAlias = Literal["official", "curated", "unreviewed"]

OFFICIAL_REGISTRY = "https://registry.modelcontextprotocol.io"
HOUR = 3600.0  # seconds; the official registry asks for no more than one synchronisation in each


class MarketplaceSource(SettingsSection, frozen=True):
    """Where entries of the marketplace come from. Headers may hold `${references}`."""

    type: SourceType
    id: str = ""
    """What it is called; empty for the name of its type, or `official`."""
    url: str = ""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    """Of two sources that describe one server, the higher one's description counts; of equal ones
    the one that is written first."""
    trust: SourceTrust | None = None
    """None for what is usual of its type."""
    private: bool = False
    """Whether its address may lead into a private network."""
    enabled: bool = True

    @property
    def name(self) -> str:
        """Its id, or what it is called without one."""
        if self.id:
            return self.id
        return "official" if self.type == "mcp-registry" and not self.url else self.type

    @property
    def address(self) -> str:
        """Its URL, the default one included; empty for a file and a package manager."""
        if self.type == "mcp-registry":
            return self.url or OFFICIAL_REGISTRY
        return self.url

    @property
    def trusted_as(self) -> SourceTrust:
        """How far what it says is trusted: as written, or as is usual."""
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
    sources: tuple[MarketplaceSource, ...] = DEFAULT_SOURCES
    sync_every: float = HOUR
    """Seconds after which a source is asked again for what has changed."""

    @property
    def active_sources(self) -> tuple[MarketplaceSource, ...]:
        """Those that are enabled, the one that counts most first."""
        return tuple(
            sorted((one for one in self.sources if one.enabled), key=lambda one: -one.priority)
        )

    def without_headers(self) -> MarketplaceSettings:
        """The same without what may be secret."""
        if not any(source.headers for source in self.sources):
            return self
        return replace(self, sources=tuple(replace(one, headers={}) for one in self.sources))
