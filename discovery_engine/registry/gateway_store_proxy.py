"""What gateways share in a database, through what watches whether it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import anyio

    from discovery_engine.registry.gateway_store import GatewayStore, TokenDocuments
    from discovery_engine.registry.relay_records import RelayNews, RelayTurn


class GatewayStoreProxy:
    """`ask` makes a call, or raises at once while the database does not answer."""

    def __init__(self, store: GatewayStore, ask: Callable[[Callable[[], Any]], Any]) -> None:
        self._store = store
        self._ask = ask
        self.name = store.name
        self.instance = store.instance

    @property
    def changed(self) -> anyio.Event:
        return self._store.changed

    def sealing_key(self, secret: str = "") -> bytes | None:
        found: bytes | None = self._ask(lambda: self._store.sealing_key(secret))
        return found

    def access_tokens(self, scope: str) -> TokenDocuments:
        found: TokenDocuments = self._ask(lambda: self._store.access_tokens(scope))
        return found

    def token_scopes(self) -> frozenset[str]:
        found: frozenset[str] = self._ask(self._store.token_scopes)
        return found

    def change_access_tokens(
        self, scope: str, change: Callable[[TokenDocuments], TokenDocuments]
    ) -> None:
        self._ask(lambda: self._store.change_access_tokens(scope, change))

    def result(self, key: bytes) -> bytes | None:
        found: bytes | None = self._ask(lambda: self._store.result(key))
        return found

    def keep_result(
        self, key: bytes, result: bytes, *, lifetime: float, instead_of: Collection[bytes] = ()
    ) -> None:
        self._ask(
            lambda: self._store.keep_result(key, result, lifetime=lifetime, instead_of=instead_of)
        )

    @property
    def relayed(self) -> anyio.Event:
        return self._store.relayed

    def take_turn(self, turn: RelayTurn) -> RelayNews:
        news: RelayNews = self._ask(lambda: self._store.take_turn(turn))
        return news
