"""The search index over the copied entries: compact, made as a whole, and loaded as bytes.

Terms, their weights and the score are those of the search over tools. The bytes hold posting lists
of which a query decodes the few that it needs; with 20,000 entries they are some 8 MB.
"""

from __future__ import annotations

import marshal
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from discovery_engine._util import digests, gc_pause
from discovery_engine.config.settings import Weights
from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.index.lazy_map import (
    LazyBuckets,
    LazyValues,
    pack_buckets,
    pack_values,
)
from discovery_engine.search.index.levels import Level
from discovery_engine.search.index.names import IDS, NameList
from discovery_engine.search.index.postings import Postings, ServerSpan
from discovery_engine.search.query.analyzer import QueryAnalyzer
from discovery_engine.search.query.retrieval import Retrieval
from discovery_engine.search.ranking.relevance import relevance_parts
from discovery_engine.search.ranking.scoring import contributions, score_tools
from discovery_engine.search.text.spelling import query_spellings
from discovery_engine.tools.model import ServerName
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from discovery_engine.search.index.documents import Document
    from discovery_engine.search.text.lexicon import Lexicon

FORMAT = 1
"""Raise it when the bytes or the documents of entries change."""

_POOL = 60  # entries that are scored in full, at least
_ROWS: Final = "q"  # numbers of rows in the store
_NO_SERVER = ServerName("")
_DOC = 4  # bytes of the number of an entry
_Packed: TypeAlias = tuple[tuple[bytes, list[bytes]], dict[int, bytes]]


class IndexedEntry(NamedTuple):
    row: int
    """Its number in the store."""
    source: str
    spellings: Collection[str]
    document: Document


class RankedRow(NamedTuple):
    row: int
    relevance: float
    is_named: bool
    """Whether the query is a name of it."""


class EntryIndex:
    """Immutable; any number of threads may search it."""

    def __init__(
        self,
        rows: bytes,
        sources: bytes,
        names: tuple[str, ...],
        packed: _Packed,
        lexicon: Lexicon,
    ) -> None:
        """`packed` are the posting lists by terms, and the spellings of names by length."""
        self._rows = memoryview(rows).cast(_ROWS)
        self._sources = sources
        self._names = names
        lists, spellings = packed
        self._postings = _postings(len(sources), LazyBuckets(lists), LazyValues(spellings))
        self._index = Index((Level(self._postings),) if len(self._rows) else ())
        self._analyzer = QueryAnalyzer(lexicon, self._index)

    @property
    def size(self) -> int:
        return len(self._rows)

    def search(
        self,
        query: str,
        words: str,
        *,
        limit: int,
        weights: Weights,
        sources: Collection[str] = (),
    ) -> list[RankedRow]:
        """The entries that fit, the best first; of all sources if none is given.

        `words` is what of the query is searched for in texts; all of it may be a name.
        """
        if not self.size:
            return []
        terms = self._analyzer.analyze(words)
        wanted = {n for n, name in enumerate(self._names) if not sources or name in sources}

        def allowed(doc_id: DocId) -> bool:
            return self._sources[doc_id.doc] in wanted

        least = max(_POOL, 2 * limit)
        found = Retrieval(self._index, terms).find_candidates(least=least, allowed=allowed)
        named = {
            doc
            for spelling in query_spellings(query)
            for doc in self._postings.named(spelling)
            if allowed(DocId(0, doc))
        }
        docs = sorted({doc_id.doc for doc_id in found.doc_ids} | named)
        scores = score_tools(self._postings, docs, terms)
        ranked = []
        for doc, score in zip(docs, scores, strict=True):
            is_named = doc in named
            if is_named or score:
                relevance = _relevance(weights, score, is_named=is_named)
                # Of several entries of one name, that with more of the query's words is first.
                ranked.append((-relevance, -score, RankedRow(self._rows[doc], relevance, is_named)))
        ranked.sort()
        return [row for *_, row in ranked[:limit]]

    def relevance(
        self,
        query: str,
        words: str,
        document: Document,
        spellings: AbstractSet[str],
        weights: Weights,
    ) -> float:
        """The relevance that an entry would have which is not in the index."""
        terms = self._analyzer.analyze(words)
        is_named = not spellings.isdisjoint(query_spellings(query))
        held = {term: impact for term in terms.weights if (impact := document.get(term))}
        score = sum(contributions(held, terms).values()) if held else 0.0
        return _relevance(weights, score, is_named=is_named)

    @classmethod
    def load(cls, data: bytes, lexicon: Lexicon) -> EntryIndex | None:
        """What `packed_index` made in a program of the same `recipe`; None if it is damaged."""
        digest, payload = data[: digests.SIZE], memoryview(data)[digests.SIZE :]
        if digests.blake2b(payload, digest_size=digests.SIZE).digest() != digest:
            return None
        try:
            with gc_pause.paused():
                rows, sources, names, *packed = marshal.loads(payload)  # noqa: S302 - ours
            return cls(rows, sources, names, (packed[0], packed[1]), lexicon)
        except (EOFError, IndexError, TypeError, ValueError):
            return None


def packed_index(read: Callable[[], Iterable[IndexedEntry]]) -> bytes:
    """An index as bytes for `EntryIndex.load`; store them where no other user can write.

    `read` gives the same entries each time. They are read twice, so that each posting list is
    written into its place at once: 20,000 entries take some 20 MiB meanwhile, instead of 46.
    """
    spellings: defaultdict[int, list[bytes]] = defaultdict(list)
    rows, sources = array(_ROWS), bytearray()
    names: dict[str, int] = {}
    counts: Counter[str] = Counter()
    with gc_pause.paused():
        for doc, entry in enumerate(read()):
            rows.append(entry.row)
            sources.append(names.setdefault(entry.source, len(names)))
            for spelling in entry.spellings:
                # One object for each, in the order of its text and then of the number.
                spellings[len(spelling)].append(spelling.encode() + doc.to_bytes(_DOC, "big"))
            counts.update(entry.document.keys())
        # The names first: what they are made of is gone before the lists are made.
        packed_names = pack_values(_NameLists(spellings))
        packed_lists = pack_buckets(_PostingLists(counts, read()))
    packed = packed_lists, packed_names
    payload = marshal.dumps((rows.tobytes(), bytes(sources), tuple(names), *packed))
    del packed, packed_lists, packed_names
    return digests.blake2b(payload, digest_size=digests.SIZE).digest() + payload


class _PostingLists(Mapping[str, tuple[bytes, bytes]]):
    """The posting list of each term, made when it is asked for from two flat arrays."""

    def __init__(self, counts: Mapping[str, int], entries: Iterable[IndexedEntry]) -> None:
        """`counts` has the number of entries of each term."""
        self._counts = counts
        total = sum(counts.values())
        self._docs, self._impacts = array(IDS, bytes(array(IDS).itemsize * total)), bytearray(total)
        starts = accumulate(counts.values(), initial=0)  # one more than there are terms
        self._ends = ends = dict(zip(counts, starts, strict=False))  # of lists that are empty yet
        for doc, entry in enumerate(entries):
            for term, impact in entry.document.items():
                at = ends[term]
                self._docs[at], self._impacts[at] = doc, impact
                ends[term] = at + 1

    def __getitem__(self, term: str) -> tuple[bytes, bytes]:
        end = self._ends[term]
        start = end - self._counts[term]
        return self._docs[start:end].tobytes(), bytes(self._impacts[start:end])

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)


class _NameLists(Mapping[int, NameList]):
    """The spellings of each length with their entries, each made once, when it is asked for."""

    def __init__(self, spellings: dict[int, list[bytes]]) -> None:
        self._spellings = spellings

    def __getitem__(self, length: int) -> NameList:
        found = self._spellings[length]
        self._spellings[length] = []
        found.sort()
        docs = array(IDS, (int.from_bytes(one[-_DOC:], "big") for one in found))
        return "".join(one[:-_DOC].decode() for one in found), docs.tobytes()

    def __iter__(self) -> Iterator[int]:
        return iter(self._spellings)

    def __len__(self) -> int:
        return len(self._spellings)


def _relevance(weights: Weights, score: float, *, is_named: bool) -> float:
    partial = max(score, float(is_named))
    return sum(relevance_parts(weights, exact=float(is_named), partial=partial, tag=0.0))


def recipe(lexicon: Lexicon) -> bytes:
    """What the bytes of an index and the documents of entries depend on, beside the entries."""
    made_with = (FORMAT, __version__, sys.version, sys.byteorder, lexicon.digest)
    return digests.digest(repr(made_with).encode())


def _postings(
    size: int, lists: LazyBuckets[tuple[bytes, bytes]], names: LazyValues[NameList]
) -> Postings:
    spans = (ServerSpan(_NO_SERVER, 0, size),) if size else ()
    return Postings(spans, lists, names, b"")
