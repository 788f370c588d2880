"""A configuration and the catalog that was made under it, as the registry keeps them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.version import __version__
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.store.codec import PartRow, part_from_row, settings_from_text


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


logger = logging.getLogger(__name__)

_UNREADABLE = (LookupError, TypeError, ValueError)
"""The errors of reading a record that is damaged, or of another version of the program."""


class StoredSnapshot(Struct, frozen=True):
    settings: str
    revision: int
    saved: int
    """The number of its last save, in any scope."""
    decided: str | None
    """The text that `decided_text` wrote."""
    parts: list[PartRow]

    def read(self, scope: str) -> Snapshot | None:
        """None if it cannot be read, which is logged."""
        try:
            if not isinstance(self.revision, int):  # a damaged row may hold anything
                raise TypeError("the revision is no number")
            settings = settings_from_text(self.settings)
            catalog = Catalog.of(map(part_from_row, self.parts), revision=self.revision)
            return Snapshot(settings, catalog, _decided(self.decided))
        except _UNREADABLE as exc:
            logger.warning("What was remembered of %s cannot be read: %s", scope, exc)
            return None


def stored_settings(scope: str, text: str | None) -> Settings | None:
    """Return the settings; None if there are none, or they cannot be read."""
    try:
        return settings_from_text(text) if text else None
    except _UNREADABLE as exc:
        logger.debug("The settings of %s cannot be read: %s", scope, exc)
        return None


def stored_parts(scope: str, rows: Iterable[PartRow]) -> tuple[ServerPart, ...]:
    """Return the parts that can be read."""
    parts = []
    for row in rows:
        try:
            parts.append(part_from_row(row))
        except _UNREADABLE as exc:
            logger.debug("A server of %s cannot be read: %s", scope, exc)
    return tuple(parts)


def decided_text(decided: int | None) -> str | None:
    """The number of a decision, with the version of the program that judged by it."""
    return None if decided is None else f"{__version__} {decided}"


def _decided(text: str | None) -> int | None:
    """None if another version of the program judged, which may do so differently."""
    version, _, number = str(text).partition(" ")
    return int(number) if version == __version__ and number.isdigit() else None
