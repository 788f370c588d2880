"""The updates of servers' resources, for the clients that subscribed to them.

An update reaches a client under the address that it subscribed to, and only while an agent may see
the resource.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS
from discovery_engine.view.offering_addresses import is_own_uri

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.events import ResourceUpdated
    from discovery_engine.view.offering_addresses import ResourceTarget


class EngineFeed:
    """Implements `subscriptions.ResourceFeed`."""

    def __init__(self, engine: ScopedEngine) -> None:
        self._engine = engine
        self._watched: dict[str, ResourceTarget] = {}

    async def watch(self, uri: str) -> None:
        """As `ResourceFeed.watch`."""
        if is_own_uri(uri):
            raise RpcError(INVALID_PARAMS, "documents of this gateway send no updates")
        try:
            self._watched[uri] = await self._engine.offerings.watch_resource(uri)
        except DiscoveryError as error:
            text = f"{error.code}: {error.message}"
            raise RpcError(
                INVALID_PARAMS, f"{text}; {error.hint}" if error.hint else text
            ) from None

    async def unwatch(self, uri: str) -> None:
        """As `ResourceFeed.unwatch`."""
        if target := self._watched.pop(uri, None):
            self._engine.offerings.unwatch_resource(target)

    def addresses_of(self, updated: ResourceUpdated) -> list[str]:
        """Under which addresses a resource, or one that it is part of, is watched and visible."""
        return [
            address
            for address, target in self._watched.items()
            if target.server == updated.server
            and _is_within(updated.uri, target.uri)
            and self._is_visible(address, updated)
        ]

    def _is_visible(self, address: str, updated: ResourceUpdated) -> bool:
        with suppress(DiscoveryError):
            view = self._engine.view
            found = view.resource(None, address)
            # A part need not be listed; but a hidden one must not show by its updates.
            is_itself = updated.uri == found.uri
            return found.server == updated.server and (
                is_itself or view.offerings.shows_part(updated.uri, found.entry)
            )
        return False


def _is_within(uri: str, watched: str) -> bool:
    return uri == watched or uri.startswith(f"{watched.rstrip('/')}/")
