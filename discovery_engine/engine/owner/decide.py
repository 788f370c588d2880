"""Stores, applies and publishes a decision of the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.events import TrustChanged

if TYPE_CHECKING:
    from discovery_engine.engine.engine import Engine
    from discovery_engine.events import EventBus, TrustChange
    from discovery_engine.tools.model import ServerName


async def decide(
    engine: Engine,
    events: EventBus,
    store: Callable[[], object],
    change: TrustChange,
    servers: Iterable[ServerName],
) -> None:
    """Store a decision, apply it, and publish it.

    Raises:
        RegistryError: If it cannot be stored; nothing is changed then.
        ConfigurationError: If it is stored, and a lock file that is needed cannot be used.
    """
    # Once begun it is finished: an engine must not answer by other decisions than are stored.
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(store)
        await engine.apply_decisions()
        events.publish(TrustChanged(change, tuple(dict.fromkeys(servers))))
