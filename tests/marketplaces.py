"""Marketplaces over registries of this machine, with a clock that a test turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from discovery_engine.config.marketplace_settings import (
    MarketplaceSettings,
    MarketplaceSource,
)
from discovery_engine.marketplace.entry_store import MarketplaceStore
from discovery_engine.marketplace.marketplace import Marketplace, synced_sources
from discovery_engine.marketplace.source import LiveSource
from discovery_engine.secrets.resolver import EnvironmentResolver

NOW = 1_790_000_000.0


@dataclass
class Clock:
    now: float = NOW
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def registry(url: str, name: str = "acme", **more: object) -> MarketplaceSource:
    return MarketplaceSource("mcp-registry", id=name, url=url, **more)  # type: ignore[arg-type]


@contextmanager
def marketplace(
    folder: Path,
    *sources: MarketplaceSource,
    clock: Clock | None = None,
    live: tuple[LiveSource, ...] = (),
    environ: Mapping[str, str] | None = None,
    sync_every: float = 3600.0,
) -> Iterator[Marketplace]:
    clock = clock or Clock()
    settings = MarketplaceSettings(sources, sync_every)
    secrets = EnvironmentResolver(environ or {})
    made = Marketplace(
        settings,
        MarketplaceStore(folder / "marketplace.db", clock=clock),
        # The packages that ship as well known would be in each answer.
        synced=[
            one
            for one in synced_sources(settings, secrets, folder=str(folder))
            if one.settings.type not in {"npm", "pypi"}
        ],
        live=live,
        environ=environ or {},
        clock=clock,
        sleep=clock.sleep,
    )
    try:
        yield made
    finally:
        made.close()
