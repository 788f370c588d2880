"""Changes of the roots of a server's clients, of which the server is notified."""

from __future__ import annotations

import anyio

from discovery_engine.upstream.rpc_client import RpcClient

_ROOTS_DEBOUNCE_INTERVAL = 0.05  # seconds in which changes are collected
_INTERVAL = 1.0  # seconds between two notifications, however often the roots change


class RootsChanges:
    """The changes of roots in one session; a burst of them is one notification."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    def note(self) -> None:
        """The roots have changed; no-op if the server will be notified anyway."""
        self._changed.set()

    async def announce(self, rpc: RpcClient) -> None:
        """Notify the server of each change, until cancelled."""
        while True:
            await self._changed.wait()
            await anyio.sleep(_ROOTS_DEBOUNCE_INTERVAL)
            self._changed = anyio.Event()
            await rpc.notify("notifications/roots/list_changed")
            await anyio.sleep(_INTERVAL)
