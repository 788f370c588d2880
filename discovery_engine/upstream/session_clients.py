"""The clients that have made calls in a session."""

from __future__ import annotations

from collections import OrderedDict

from discovery_engine.rpc.client import Client

_MOST = 64  # clients; of more, those that called last are known


class SessionClients:
    def __init__(self) -> None:
        self._origins: OrderedDict[object, None] = OrderedDict()
        self.are_one = True
        """Whether at most one client has ever called."""

    def add(self, client: Client) -> None:
        origin = client.origin
        if origin in self._origins:
            self._origins.move_to_end(origin)
            return
        self.are_one = not self._origins
        self._origins[origin] = None
        if len(self._origins) > _MOST:
            self._origins.popitem(last=False)

    def includes(self, client: Client) -> bool:
        return client.origin in self._origins
