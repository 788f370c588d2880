"""Leases of a shared registry, of which no copy knows anything; see `leases`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.registry.leases import Lease
    from discovery_engine.registry.protocols import LeaseStore


class SharedLeases:
    """The leases in the database; `ask` makes each call there, or raises why it cannot be made."""

    def __init__(self, ask: Callable[[Callable[[LeaseStore], Lease | None]], Lease | None]) -> None:
        self._ask = ask

    def lease(self, name: str) -> Lease | None:
        return self._ask(lambda store: store.lease(name))

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        return self._ask(lambda store: store.acquire_lease(name, holder, instead_of=instead_of))

    def renew_lease(self, lease: Lease) -> Lease | None:
        return self._ask(lambda store: store.renew_lease(lease))

    def release_lease(self, lease: Lease) -> None:
        self._ask(lambda store: store.release_lease(lease))
