"""Resources whose updates are asked for over the API; they arrive as events `resource_updated`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from discovery_engine.errors import DiscoveryError

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.view.offering_addresses import ResourceTarget

_MAX_WATCHED_RESOURCES = 200


class TooManyWatchedError(DiscoveryError):
    code = "RATE_LIMITED"

    def __init__(self) -> None:
        text = f"{_MAX_WATCHED_RESOURCES} resources are watched, which are the most"
        super().__init__(text, hint="unsubscribe from one of them")


class WatchedResources:
    """The watched resources of one gateway; they end with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._targets: dict[tuple[str, str], ResourceTarget] = {}
        self._turn = anyio.Lock()

    def list(self) -> list[ResourceTarget]:
        """Return the targets in the order of servers and addresses."""
        return [self._targets[key] for key in sorted(self._targets)]

    async def add(self, server: str, uri: str) -> ResourceTarget:
        """Have the server notify of updates of a resource; no-op if it does already.

        Raises:
            TooManyWatchedError: If no further one is possible.
            DiscoveryError: As `ServerOfferings.watch_resource`.
        """
        async with self._turn:
            offerings = self._engine.offerings
            if len(self._targets) >= _MAX_WATCHED_RESOURCES:
                raise TooManyWatchedError
            target = await offerings.watch_resource(uri, server=server)
            key = str(target.server), target.uri
            if key in self._targets:
                offerings.unwatch_resource(target)
            self._targets.setdefault(key, target)
            return target

    def remove(self, server: str, uri: str) -> bool:
        """Have no more updates of a resource; returns whether there were any."""
        target = self._targets.pop((server, uri), None)
        if target:
            self._engine.offerings.unwatch_resource(target)
        return target is not None
