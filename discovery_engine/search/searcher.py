"""The catalog made searchable.

A searcher is immutable. It answers from one catalog; the next one is built from the last, and
works anew only on servers that changed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from discovery_engine.catalog import Catalog, Entry
from discovery_engine.config.settings import SearchSettings, Weights
from discovery_engine.search.documents import SCALE, Document, documents
from discovery_engine.search.index import Block
from discovery_engine.search.lexicon import Lexicon, default_lexicon
from discovery_engine.search.names import Names
from discovery_engine.search.tokens import words
from discovery_engine.tools import ServerName

_NOTHING: Mapping[ServerName, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """What each part adds to the relevance; the three add up to it."""

    exact: float
    partial: float
    tag: float


@dataclass(frozen=True, slots=True)
class Hit:
    entry: Entry
    relevance: float
    """From 0 to 1; a degree of fit, not a probability."""
    parts: ScoreParts


class Searcher:
    """Made by `build_searcher`."""

    def __init__(
        self, entries: Sequence[Entry], block: Block, weights: Weights, lexicon: Lexicon
    ) -> None:
        self._entries = entries
        self._block = block
        self._names = Names(entries)
        self._weights = weights
        self._lexicon = lexicon

    def search(
        self, query: str, *, limit: int, accepts: Callable[[Entry], bool]
    ) -> tuple[Hit, ...]:
        """The accepted tools that fit `query`, the best first, at most `limit`."""
        exact = set(self._names.exact(query))
        partial = self._partial(query)
        asked = set(words(query))
        hits = []
        for doc, entry in enumerate(self._entries):
            tag = _tag_share(entry.verdict.tags, asked)
            if (doc in exact or doc in partial or tag) and accepts(entry):
                hits.append(self._hit(entry, float(doc in exact), partial.get(doc, 0.0), tag))
        return tuple(heapq.nsmallest(limit, hits, key=_order))

    def _partial(self, query: str) -> dict[int, float]:
        scores: dict[int, float] = {}
        attainable = 0.0
        for term in dict.fromkeys(self._query_terms(query)):
            found = self._block.postings.get(term)
            count = len(found.docs) if found else 0
            weight = math.log(1 + (self._block.size - count + 0.5) / (count + 0.5))
            attainable += weight
            if found:
                for doc, impact in zip(found.docs, found.impacts, strict=True):
                    scores[doc] = scores.get(doc, 0.0) + weight * impact / (SCALE + 1)
        return {doc: score / attainable for doc, score in scores.items()}

    def _query_terms(self, query: str) -> list[str]:
        said = words(query)
        spoken = [w for w in said if not self._lexicon.is_silent(w)] or said
        return [self._lexicon.term(w) for w in spoken]

    def _hit(self, entry: Entry, exact: float, partial: float, tag: float) -> Hit:
        """Noisy-or: each part closes its share of what the parts before left open."""
        by_exact = self._weights.exact * exact
        by_partial = (1 - by_exact) * self._weights.partial * partial
        by_tag = (1 - by_exact - by_partial) * self._weights.tag * tag
        parts = ScoreParts(by_exact, by_partial, by_tag)
        return Hit(entry, by_exact + by_partial + by_tag, parts)


def build_searcher(
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str] = _NOTHING,
    previous: Searcher | None = None,
) -> Searcher:
    """A searcher over `catalog`; `descriptions` says what each server is for."""
    lexicon = default_lexicon()
    found: list[Document] = []
    for server, part in catalog.parts.items():
        tools = [entry.tool for entry in part.entries]
        found += documents(tools, server, descriptions.get(server, ""), lexicon)
    return Searcher(tuple(catalog), Block.of(found), settings.weights, lexicon)


def _tag_share(tags: Sequence[str], asked: set[str]) -> float:
    """The share of `tags` of which the query says every word."""
    return sum(set(words(tag)) <= asked for tag in tags) / len(tags) if tags else 0.0


def _order(hit: Hit) -> tuple[bool, float, str, str]:
    return not hit.parts.exact, -hit.relevance, hit.entry.tool.server, hit.entry.tool.name
