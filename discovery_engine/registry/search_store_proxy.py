"""Search in a database through what opens it, or watches whether it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discovery_engine.search.database.search_store import (
        DocumentPlace,
        Nearest,
        SearchStore,
        ServerDocuments,
        StoredDocument,
        StoredIndex,
    )
    from discovery_engine.tools.model import ServerName


class SearchStoreProxy:
    """`ask` is given each call, and makes it with the store of the database."""

    def __init__(self, ask: Callable[[Callable[[SearchStore], Any]], Any]) -> None:
        self._ask = ask

    def stored_index(self, scope: str, recipe: bytes, *, since: int) -> StoredIndex | None:
        found: StoredIndex | None
        found = self._ask(lambda store: store.stored_index(scope, recipe, since=since))
        return found

    def save_documents(self, index: int, servers: Sequence[ServerDocuments]) -> None:
        self._ask(lambda store: store.save_documents(index, servers))

    def confirm(self, index: int, made_of: Mapping[ServerName, bytes]) -> None:
        self._ask(lambda store: store.confirm(index, made_of))

    def nearest(
        self,
        index: int,
        weights: Mapping[int, float],
        most: int,
        *,
        postings: int,
        servers: Collection[int] | None = None,
    ) -> Nearest | None:
        found: Nearest | None
        found = self._ask(
            lambda store: store.nearest(index, weights, most, postings=postings, servers=servers)
        )
        return found

    def documents(
        self, places: Collection[DocumentPlace]
    ) -> Mapping[DocumentPlace, StoredDocument]:
        found: Mapping[DocumentPlace, StoredDocument]
        found = self._ask(lambda store: store.documents(places))
        return found
