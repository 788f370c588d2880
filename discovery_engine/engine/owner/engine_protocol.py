"""The parts of an engine that the owner's verbs use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from discovery_engine.events import TrustChanged

if TYPE_CHECKING:
    from discovery_engine.catalog import RefreshReport
    from discovery_engine.events import Event, EventBus, Subscription, TrustChange
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View


class EngineProtocol(Protocol):
    @property
    def view(self) -> View: ...

    def subscribe(self, *kinds: type[Event]) -> AbstractContextManager[Subscription]: ...

    async def refresh(
        self, servers: Iterable[str] | None = None, *, max_wait: float | None = None
    ) -> RefreshReport: ...

    async def apply_decisions(self) -> None: ...


async def decide(
    host: EngineProtocol,
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
        await host.apply_decisions()
        events.publish(TrustChanged(change, tuple(dict.fromkeys(servers))))
