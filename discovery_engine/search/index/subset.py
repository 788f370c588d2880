"""Some tools of an index, with their own postings.

Few tools are disabled, and few are of one server. To find the best of few in the postings of all
tools would cost what all tools cost; each list is filtered once, when a query first needs it.
"""

from __future__ import annotations

from array import array
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING

from discovery_engine.search.index.names import IDS
from discovery_engine.search.index.postings import impacts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from discovery_engine.catalog import Entry
    from discovery_engine.search.index.index import DocId, Index
    from discovery_engine.search.index.postings import PostingList

_BISECT_PART = 8  # a list this many times as long as the subset is not read, but searched
_NOTHING: PostingList = (b"", b"")


class Subset:
    """The tools `doc_ids` of `index`; immutable, as the index is."""

    def __init__(self, index: Index, doc_ids: Iterable[DocId]) -> None:
        self._index = index
        self.doc_ids = tuple(doc_ids)
        self._lists: dict[tuple[int, str], PostingList] = {}

    @classmethod
    def of(cls, index: Index, accepts: Callable[[Entry], bool]) -> Subset:
        """The accepted tools, in the order of servers and names."""
        return cls(
            index,
            (
                doc_id
                for server, indexed in index.servers.items()
                for doc_id, entry in zip(index.doc_ids(server), indexed.part.entries, strict=True)
                if accepts(entry)
            ),
        )

    def __len__(self) -> int:
        return len(self.doc_ids)

    def postings(self, level: int, term: str) -> PostingList:
        """Which tools of the subset hold a term, and its impact on each."""
        found = self._lists.get((level, term))
        if found is None:
            found = self._lists[level, term] = self._filtered(level, term)
        return found

    def _filtered(self, level: int, term: str) -> PostingList:
        docs = self._docs[level]
        lists = self._index.levels[level].postings.lists.get(term)
        if lists is None or not docs:
            return _NOTHING
        ids, impacts = array(IDS, lists[0]), lists[1]
        if len(ids) > _BISECT_PART * len(docs):
            held = impacts_of(lists, docs)
            return array(IDS, [docs[i] for i, _ in held]).tobytes(), bytes(i for _, i in held)
        mask = self._masks[level]
        is_held = bytes(map(mask.__getitem__, ids))
        return array(IDS, compress(ids, is_held)).tobytes(), bytes(compress(impacts, is_held))

    @cached_property
    def _docs(self) -> Sequence[Sequence[int]]:
        """By level, the numbers of the tools, ascending."""
        docs: list[list[int]] = [[] for _ in self._index.levels]
        for level, doc in sorted(self.doc_ids):
            docs[level].append(doc)
        return docs

    @cached_property
    def _masks(self) -> Sequence[bytes]:
        """By level, a byte for each tool: 1 for those of the subset."""
        masks = [bytearray(level.postings.size) for level in self._index.levels]
        for level, doc in self.doc_ids:
            masks[level][doc] = 1
        return [bytes(mask) for mask in masks]
