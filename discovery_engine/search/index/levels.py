"""Levels of a log-structured merge tree: postings of falling size, and what is deleted from them.

An update of one server must not cost a new index of all. Its old tools are marked as deleted in
their level, its new ones become a level of their own, and the smallest levels are merged until
the last is less than half as large as the one before. So there are about log2(n) levels for n
tools, and a tool is merged about log2(n) times, however many updates there are. With 5,000 tools, a
server of ten is replaced in 3 ms; to build their index takes a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from discovery_engine.search.index.postings import Postings, PostingsWriter, ServerSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from discovery_engine.search.index.documents import Document

_DELETED_PART = 8  # a level is rewritten when more than one in so many of its tools is deleted


class Level(Struct, frozen=True):
    postings: Postings
    deleted: frozenset[int] = frozenset()
    """Numbers of tools that are no longer as the postings have them: whole servers, always."""
    deleted_counts: Mapping[str, int] = field(default_factory=dict)
    """How many of the deleted tools hold each term."""

    @property
    def size(self) -> int:
        return self.postings.size - len(self.deleted)

    def document_frequency(self, term: str) -> int:
        """How many tools hold `term`."""
        # Counted once at deletion: to look for deleted tools in each list would cost every query
        # the length of its lists.
        posting_list = self.postings.lists.get(term)
        return len(posting_list[1]) - self.deleted_counts.get(term, 0) if posting_list else 0

    def is_deleted(self, span: ServerSpan) -> bool:
        return span.start in self.deleted

    def without(self, span: ServerSpan, documents: Iterable[Document]) -> Level:
        """The level without a server's tools, which were indexed as `documents`."""
        counts = dict(self.deleted_counts)
        for document in documents:
            for term in document:
                counts[term] = counts.get(term, 0) + 1
        deleted = self.deleted.union(range(span.start, span.stop))
        return Level(self.postings, deleted, counts)


def compacted(levels: Iterable[Level]) -> tuple[Level, ...]:
    """The largest first; none is empty, has many deleted tools, or is nearly as small as the next.

    Deleted tools still cost a query time, since their postings are read and thrown away.
    """
    live_levels = [
        merged([level]) if len(level.deleted) * _DELETED_PART > level.postings.size else level
        for level in levels
        if level.size
    ]
    live_levels.sort(key=lambda level: -level.size)
    while len(live_levels) > 1 and live_levels[-2].size <= 2 * live_levels[-1].size:
        live_levels[-2:] = [merged(live_levels[-2:])]
    return tuple(live_levels)


def merged(levels: Sequence[Level]) -> Level:
    """One level with everything in `levels` that is not deleted."""
    writer = PostingsWriter()
    for level in levels:
        if level.deleted:
            writer.merge_without(level.postings, level.is_deleted)
        else:
            writer.merge(level.postings)
    return Level(writer.build())
