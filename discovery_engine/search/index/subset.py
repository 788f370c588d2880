"""Some tools of an index: those of a view, of one server, with some tags, or the hidden ones.

A subset is a byte for each tool of the index, and nothing else: there may be many views.
"""

from __future__ import annotations

from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.search.index.index import DocId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.catalog import Entry
    from discovery_engine.search.index.index import Index
    from discovery_engine.tools.model import ServerName

Flags: TypeAlias = bytes
"""A byte for each of some tools, in their order: 1 for those of the subset, otherwise 0."""


class Subset:
    """Immutable, and valid for the index that it was made of."""

    def __init__(self, levels: Iterable[Flags]) -> None:
        self.levels: Sequence[Flags] = tuple(levels)
        """By level, in the order of their numbers there."""

    @classmethod
    def of(cls, index: Index, accepts: Callable[[Entry], bool]) -> Subset:
        """The accepted tools."""
        return cls.by_server(
            index,
            {
                server: bytes(map(accepts, indexed.part.entries))
                for server, indexed in index.servers.items()
            },
        )

    @classmethod
    def by_server(cls, index: Index, chosen: Mapping[ServerName, Flags | None]) -> Subset:
        """Return the chosen tools of each server, in the order of their names; None for all."""
        levels = [bytearray(level.postings.size) for level in index.levels]
        for server, flags in chosen.items():
            if server in index.servers:
                number, span = index.locate(server)
                size = span.stop - span.start
                levels[number][span.start : span.stop] = flags or b"\1" * size
        return cls(map(bytes, levels))

    @cached_property
    def size(self) -> int:
        return sum(int.from_bytes(level).bit_count() for level in self.levels)

    def __contains__(self, doc_id: DocId) -> bool:
        return bool(self.levels[doc_id.level][doc_id.doc])

    def __iter__(self) -> Iterator[DocId]:
        for number, level in enumerate(self.levels):
            for doc in compress(range(len(level)), level):
                yield DocId(number, doc)

    def servers(self, index: Index) -> Iterator[ServerName]:
        """The servers that have any of them; `index` is that which it was made of."""
        for level, flags in zip(index.levels, self.levels, strict=True):
            for server, start, stop in level.postings.spans:
                if any(flags[start:stop]):
                    yield server

    def __and__(self, other: Subset) -> Subset:
        """The tools that both have."""
        return Subset(map(_both, self.levels, other.levels))


def _both(one: Flags, other: Flags) -> Flags:
    return (int.from_bytes(one) & int.from_bytes(other)).to_bytes(len(one))
