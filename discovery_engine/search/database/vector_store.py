"""What a database keeps so that tools can be found by their vectors there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from discovery_engine.search.database.document_place import DocumentPlace
    from discovery_engine.search.embedders import Vector

MOST_DIMENSIONS = 4_000
"""That an index of pgvector has for vectors of half precision."""


class NoVectorSearchError(Exception):
    """The database cannot compare vectors; the message says why, and what its owner can do."""


class StoredVector(NamedTuple):
    """What `vectors.pack` made of a tool."""

    text: bytes
    requests: bytes | None
    """The mean of its examples; None if it has none."""


class FoundVector(NamedTuple):
    place: DocumentPlace
    vector: StoredVector


class VectorSpace(Struct, frozen=True):
    """The vectors that one model gave to the tools of one index."""

    number: int
    dimensions: int
    schema: str
    """That of pgvector in the database, as it is written in a query."""


class VectorSearchStore(Protocol):
    """All methods raise `RegistryError` if the database does not answer.

    Vectors belong to the documents of a server, and are dropped with these.
    """

    def open_space(self, index: int, model: str, dimensions: int) -> VectorSpace | None:
        """The space of a model in an index of documents, which is made if there is none.

        That it is used is noted; spaces that no gateway uses are dropped some day. None if there
        is no such index any more.

        Raises:
            NoVectorSearchError: If the database cannot compare such vectors.
        """

    def missing(self, space: VectorSpace) -> frozenset[int]:
        """The numbers of the present documents of servers whose vectors it lacks."""

    def save(self, space: VectorSpace, vectors: Mapping[int, Sequence[StoredVector]]) -> None:
        """Add the vectors of servers by the numbers of their documents, in the order of these."""

    def finish(self, space: VectorSpace) -> None:
        """Index the vectors, if they are many. It may take minutes, and no search waits for it."""

    def nearest(
        self,
        space: VectorSpace,
        probes: Sequence[tuple[Vector, int]],
        servers: Collection[int] | None = None,
    ) -> list[FoundVector]:
        """For each probe about as many tools as it says, with the highest inner products.

        With `servers` only of documents with these numbers, and then exactly.
        """

    def at(self, space: VectorSpace, places: Collection[DocumentPlace]) -> list[FoundVector]:
        """Those that are there."""
