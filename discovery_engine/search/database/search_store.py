"""What a database keeps so that tools can be searched there, and how it is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from discovery_engine.search.database.document_place import DocumentPlace
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.search.database.vector_store import VectorSearchStore


class StoredDocument(NamedTuple):
    """What the index keeps of a tool, in a form that a database can search."""

    profile: int
    """What the tool does, as `ToolProfile.packed` has it."""
    keys: Sequence[int]
    """A number for each term and its level of impact, ascending: see `TermKeys`."""
    impacts: bytes
    """In the same order."""


class ServerDocuments(Struct, frozen=True):
    """The documents of one server's tools."""

    server: ServerName
    made_of: bytes
    """A digest of what they are made of that is cheap to make."""
    content: bytes
    """A digest of all that they depend on."""
    documents: Sequence[StoredDocument]
    """In the order of the tools' names."""
    counts: Mapping[tuple[int, str], int]
    """How many of them hold each term, by its key and itself."""


class StoredServer(NamedTuple):
    """What is stored of a server at present."""

    number: int
    """Of its documents; they get another one when they are replaced."""
    made_of: bytes
    content: bytes


class StoredIndex(Struct, frozen=True):
    """What changed of an index since a revision of it."""

    number: int
    """Of the index; the keys of its terms depend on it."""
    revision: int
    servers: Mapping[ServerName, StoredServer | None]
    """None for one that was dropped."""
    size: int
    """How many servers it has now."""
    counts: Mapping[str, int]
    """How many tools hold a term."""


class Nearest(NamedTuple):
    revision: int
    """Of the index, at the time of the search."""
    places: list[DocumentPlace]
    """The best first."""
    are_all: bool
    """Whether no other document holds one of the keys."""


class SearchStore(Protocol):
    """One scope may have several indexes, since versions of the program make different ones.

    All methods raise `RegistryError` if the database does not answer.
    """

    @property
    def vectors(self) -> VectorSearchStore:
        """What finds the same tools by their vectors."""

    def stored_index(self, scope: str, recipe: bytes, *, since: int) -> StoredIndex | None:
        """What changed after revision `since`; everything of an index that was made meanwhile.

        An index that is not there is made. None if nothing is saved of the scope.
        """

    def save_documents(
        self, index: int, servers: Sequence[ServerDocuments], *, unlisted: Collection[ServerName]
    ) -> None:
        """Replace the documents of these servers.

        Those of `unlisted` servers are dropped unless another gateway has listed tools of them.
        A server whose documents are there with the same content is skipped. Replaced documents
        are found for another minute, by gateways that have not noticed yet.
        """

    def confirm(self, index: int, made_of: Mapping[ServerName, bytes]) -> None:
        """Documents are the same, though they are made of something else."""

    def nearest(
        self,
        index: int,
        weights: Mapping[int, float],
        most: int,
        *,
        postings: int,
        servers: Collection[int] | None = None,
    ) -> Nearest | None:
        """The documents with the highest sums of the weights of the keys that they hold.

        At most `most`; with `servers`, only documents with these numbers. The keys are looked up
        in their order, until so many `postings` were read. None if there is no such index any more.
        """

    def documents(
        self, places: Collection[DocumentPlace]
    ) -> Mapping[DocumentPlace, StoredDocument]:
        """Those that are still there."""
