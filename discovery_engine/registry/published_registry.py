"""The registry of a gateway whose role of the database is restricted to what a team may see.

The catalog is what the database publishes for the role. All else is this machine's: the role has no
right to it there, and the gateway's own file keeps it, as without a database. Nothing is written to
the database. While it does not answer, the catalog is what was last seen of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct, field

from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.errors import RegistryError, RegistryUnavailableError
from discovery_engine.registry.availability import Availability
from discovery_engine.registry.protocols import RegistryHealth
from discovery_engine.registry.snapshot import Snapshot
from discovery_engine.registry.sqlite.registry import SqliteRegistry
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshTarget
    from discovery_engine.registry.postgres.published_catalog import Published, PublishedCatalog
    from discovery_engine.registry.sqlite.database import Database

logger = logging.getLogger(__name__)


class _Seen(Struct):
    """What this process has of a scope."""

    marks: Mapping[bytes, str] = field(default_factory=dict)
    """The servers by the marks of their rows, when these were last fetched."""
    connections: Mapping[ServerName, str] = field(default_factory=dict)
    """How servers are reached of which it has anything."""


class PublishedRegistry(SqliteRegistry):
    """Made by `backends.open_published`; closes both that it was given.

    Args:
        database: The file of this machine.
        published: What the role of the database sees.
        clock: Seconds from any beginning.
    """

    def __init__(
        self,
        database: Database,
        published: PublishedCatalog,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(database, has_webhooks=False)
        self._published = published
        self._seen: dict[str, _Seen] = {}
        self._availability = Availability(published.database.address.name, clock)
        self.health: RegistryHealth = RegistryHealth(None, None, 0, 0)

    def load(self, scope: str) -> Snapshot | None:
        kept = super().load(scope)
        parts = self._asked(lambda published: published.all_parts(scope))
        if parts is None:
            known = kept.catalog.parts.values() if kept else ()
            listed = {part.server: part.connection for part in known if part.listed_at}
            self._seen[scope] = _Seen({}, listed)
            return kept
        marks, found = parts
        self._seen[scope] = _Seen(marks, {part.server: part.connection for part in found})
        settings, revision = (kept.settings, kept.catalog.revision) if kept else (Settings(), 0)
        return Snapshot(settings, Catalog.of(found, revision=revision))

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        """What is published anew, and servers without any tool that are published no more."""
        seen = self._seen.setdefault(scope, _Seen())
        fetched = self._asked(lambda published: published.parts_unlike(scope, seen.marks))
        if fetched is None:
            return ()
        marks, found = fetched
        names = frozenset(marks.values())
        gone = [
            ServerPart(name, listed_at=time.time(), connection=connection)
            for name, connection in seen.connections.items()
            if name not in names
        ]
        parts = [*found, *gone]
        kept = {name: how for name, how in seen.connections.items() if name in names}
        kept |= {part.server: part.connection for part in found}
        self._seen[scope] = _Seen(marks, kept)
        self.save_parts(scope, parts, revision=0)
        return tuple(parts)

    async def changes(self) -> AsyncGenerator[None]:
        async with aclosing(self._published.changes(self.newest_decision)) as changes:
            async for _ in changes:
                self._availability.retry_now()  # it may have begun to answer, or to permit
                yield

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:  # noqa: ARG002 - it never comes to that
        raise RegistryError(
            "this gateway only reads its registry (`registry.readOnly`), so there is no queue that "
            "workers could share",
            hint="run workers with the role that owns the tables of the database",
        )

    def close(self) -> None:
        self._published.database.close()
        super().close()

    def _asked(self, ask: Callable[[PublishedCatalog], Published]) -> Published | None:
        """What the database publishes, nothing if it refuses; None while it does not answer."""
        if not self._availability.may_try():
            return None
        try:
            found = ask(self._published)
        except RegistryUnavailableError as error:
            self._availability.failed(error)
            self.health = RegistryHealth(error, self._availability.since, 0, 0)
            return None
        except RegistryError as error:
            # A role that was revoked is refused, and what it saw before is not for it any more.
            self._availability.answered()
            if self.health.error is None:
                logger.warning("%s; nothing of it is shown (%s)", error.message, error.hint)
            self.health = RegistryHealth(error, self.health.since or time.time(), 0, 0)
            return {}, []
        self._availability.answered()
        self.health = RegistryHealth(None, None, 0, 0)
        return found
