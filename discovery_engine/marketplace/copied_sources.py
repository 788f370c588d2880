"""The configured sources of which there is a copy."""

from __future__ import annotations

from collections.abc import Iterator

from discovery_engine.config.marketplace_settings import MarketplaceSettings, MarketplaceSource
from discovery_engine.marketplace.docker_catalog import DockerCatalog
from discovery_engine.marketplace.mcp_registry import McpRegistry
from discovery_engine.marketplace.package_sources import KnownPackagesSource
from discovery_engine.marketplace.source import SyncedSource
from discovery_engine.secrets.resolver import SecretResolver


def synced_sources(
    settings: MarketplaceSettings, secrets: SecretResolver, *, folder: str | None
) -> list[SyncedSource]:
    """Return the enabled sources that are copied; relative paths start at `folder`."""
    return [
        source
        for source_settings in settings.active_sources
        for source in _synced_source(source_settings, secrets, folder)
    ]


def _synced_source(
    settings: MarketplaceSource, secrets: SecretResolver, folder: str | None
) -> Iterator[SyncedSource]:
    match settings.type:
        case "mcp-registry":
            yield McpRegistry(settings, secrets, folder=folder)
        case "docker-catalog":
            yield DockerCatalog(settings, secrets, folder=folder)
        case "file":
            # It checks with pydantic, which takes 0.1 s of CPU to import.
            from discovery_engine.marketplace.server_list import ServerList  # noqa: PLC0415

            yield ServerList(settings, secrets, folder=folder)
        case "npm" | "pypi":
            yield KnownPackagesSource(settings)
