"""The marketplace of the present configuration: `engine.marketplace`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from discovery_engine.config.settings import Settings
from discovery_engine.marketplace.entry_store import FILE_NAME, MarketplaceStore
from discovery_engine.marketplace.marketplace import Marketplace, synced_sources
from discovery_engine.marketplace.package_sources import live_sources
from discovery_engine.secrets.resolver import SecretResolver


class CurrentMarketplace:
    """Makes a marketplace when it is first asked for, and another one when its settings change."""

    def __init__(
        self,
        *,
        data: Path,
        environ: Mapping[str, str],
        secrets: SecretResolver,
        clock: Callable[[], float],
    ) -> None:
        self._store = MarketplaceStore(data / FILE_NAME, clock=clock)
        self._environ = environ
        self._secrets = secrets
        self._clock = clock
        self._made: tuple[object, Marketplace] | None = None

    def current(self, settings: Settings) -> Marketplace:
        """The marketplace of these settings."""
        key = (settings.marketplace, settings.path)
        if self._made is None or self._made[0] != key:
            self._made = (key, self._make(settings))
        return self._made[1]

    def close(self) -> None:
        self._store.close()

    def _make(self, settings: Settings) -> Marketplace:
        folder = os.path.dirname(settings.path) if settings.path else None  # noqa: PTH120 - "" stays
        return Marketplace(
            settings.marketplace,
            self._store,
            synced=synced_sources(settings.marketplace, self._secrets, folder=folder),
            live=live_sources(settings.marketplace, self._environ),
            environ=self._environ,
            clock=self._clock,
        )
