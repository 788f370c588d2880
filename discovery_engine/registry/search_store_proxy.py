"""Search in a database through what opens it, or watches whether it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discovery_engine.search.database.document_place import DocumentPlace
    from discovery_engine.search.database.search_store import (
        Nearest,
        SearchStore,
        ServerDocuments,
        StoredDocument,
        StoredIndex,
    )
    from discovery_engine.search.database.vector_store import (
        FoundVector,
        StoredVector,
        VectorSearchStore,
        VectorSpace,
    )
    from discovery_engine.search.embedders import Vector
    from discovery_engine.tools.model import ServerName


class VectorSearchProxy:
    """As `SearchStoreProxy`."""

    def __init__(self, ask: Callable[[Callable[[VectorSearchStore], Any]], Any]) -> None:
        self._ask = ask

    def open_space(self, index: int, model: str, dimensions: int) -> VectorSpace | None:
        found: VectorSpace | None
        found = self._ask(lambda store: store.open_space(index, model, dimensions))
        return found

    def missing(self, space: VectorSpace) -> frozenset[int]:
        found: frozenset[int] = self._ask(lambda store: store.missing(space))
        return found

    def save(self, space: VectorSpace, vectors: Mapping[int, Sequence[StoredVector]]) -> None:
        self._ask(lambda store: store.save(space, vectors))

    def finish(self, space: VectorSpace) -> None:
        self._ask(lambda store: store.finish(space))

    def nearest(
        self,
        space: VectorSpace,
        probes: Sequence[tuple[Vector, int]],
        servers: Collection[int] | None = None,
    ) -> list[FoundVector]:
        found: list[FoundVector] = self._ask(lambda store: store.nearest(space, probes, servers))
        return found

    def at(self, space: VectorSpace, places: Collection[DocumentPlace]) -> list[FoundVector]:
        found: list[FoundVector] = self._ask(lambda store: store.at(space, places))
        return found


class SearchStoreProxy:
    """`ask` is given each call, and makes it with the store of the database."""

    def __init__(self, ask: Callable[[Callable[[SearchStore], Any]], Any]) -> None:
        self._ask = ask
        self.vectors = VectorSearchProxy(lambda call: ask(lambda store: call(store.vectors)))

    def stored_index(self, scope: str, recipe: bytes, *, since: int) -> StoredIndex | None:
        found: StoredIndex | None
        found = self._ask(lambda store: store.stored_index(scope, recipe, since=since))
        return found

    def save_documents(
        self, index: int, servers: Sequence[ServerDocuments], *, unlisted: Collection[ServerName]
    ) -> None:
        self._ask(lambda store: store.save_documents(index, servers, unlisted=unlisted))

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
