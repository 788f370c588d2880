"""A configuration and the catalog that was made under it, as the registry keeps them."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import Settings


class Snapshot(Struct, frozen=True):
    """The settings, without their secrets, and the catalog that was made under them."""

    settings: Settings
    catalog: Catalog
    decided: int | None = None
    """The number of the newest decision that all its verdicts take into account, if that is known:
    then they still hold under the same settings, as long as no other was made."""

    @property
    def own(self) -> Snapshot:
        """Without servers that the settings do not name: workers with other settings keep them."""
        parts, named = self.catalog.parts, self.settings.by_name
        if parts.keys() <= named.keys():
            return self
        own_parts = (part for name, part in parts.items() if name in named)
        return replace(self, catalog=Catalog.of(own_parts, revision=self.catalog.revision))
