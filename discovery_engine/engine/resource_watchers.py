"""Counts who watches each resource: its server is asked by the first, and released by the last."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.tools.model import ServerName


class ResourceWatchers:
    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._watchers: Counter[tuple[ServerName, str]] = Counter()

    async def add(self, server: ServerSettings, uri: str) -> None:
        """One more watches a resource.

        Raises:
            UpstreamError: If its server does not notify of updates, or cannot be reached.
        """
        await self._upstreams.watch(server, uri)
        self._watchers[server.name, uri] += 1

    def remove(self, server: ServerName, uri: str) -> None:
        """One fewer watches a resource."""
        self._watchers[server, uri] -= 1
        if self._watchers[server, uri] <= 0:
            del self._watchers[server, uri]
            self._upstreams.unwatch(server, uri)
