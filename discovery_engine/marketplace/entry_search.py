"""Searches the copied entries, and merges entries of several sources for the same server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from discovery_engine.config.marketplace_settings import MarketplaceSettings
from discovery_engine.marketplace.entry import (
    MarketplaceEntry,
    group_identities,
    merge_group,
    merged_entries,
)
from discovery_engine.marketplace.entry_store import (
    NOT_NAMED,
    MarketplaceStore,
    entry_lexicon,
    entry_terms,
    name_spellings_of,
    telling_words,
)
from discovery_engine.marketplace.source import copy_key
from discovery_engine.search.text.tokenizer import query_spellings

_DEEPEST = 500  # results of a query that can be paged through


class FoundEntry(Struct, frozen=True):
    entry: MarketplaceEntry
    relevance: float
    """From 0 to 1; 0 in a list without a query."""


class EntrySearch:
    """Searches the store; its methods block, and belong in a worker thread."""

    def __init__(self, settings: MarketplaceSettings, store: MarketplaceStore) -> None:
        self._store = store
        self._order = [source.name for source in settings.active_sources]
        self._keys = {source.name: copy_key(source) for source in settings.active_sources}
        self._names = {key: name for name, key in self._keys.items()}

    @property
    def keys(self) -> list[str]:
        """The keys of the copies of all sources."""
        return list(self._names)

    def rank(self, source: str) -> int:
        """Return the precedence of a source; the lowest number comes first."""
        return self._order.index(source) if source in self._order else len(self._order)

    def page(
        self,
        query: str,
        sources: Sequence[str],
        offset: int,
        limit: int,
        live: Sequence[MarketplaceEntry],
    ) -> tuple[list[FoundEntry], int | None]:
        """Return a page of results, and the offset of the next page; None after the last.

        Args:
            query: The query; without telling words, the latest entries are listed.
            sources: The names of the sources to search.
            offset: The number of results before the page.
            limit: The most results.
            live: Entries that package managers returned for this query.
        """
        keys = [self._keys[name] for name in sources]
        if not (words := telling_words(query)):
            stored = self._store.latest(keys, limit=limit + 1, offset=offset)
            rows = [copy.row for copy in stored[:limit]]
            following = offset + limit if len(stored) > limit else None
            return self._merged(self._groups(rows, keys), {}, {}), following
        relevance = self._scaled(query, self._store.search(query, words, keys, _DEEPEST))
        # A group has at most one entry of each source.
        rows = list(relevance)[: (offset + limit + 1) * len(keys)]
        groups = self._groups(rows, keys)[offset:]
        fresh = {(entry.origins[0].source, entry.name): entry for entry in live}
        copied = self._merged(groups[:limit], relevance, fresh)
        others = list(fresh.values())
        page = (self._with_live(query, copied, others) if others else copied)[:limit]
        # Live entries are for the first page only: further pages come from the copies.
        on_page = {(result.entry.id, result.entry.name) for result in page}
        count = sum((result.entry.id, result.entry.name) in on_page for result in copied)
        return page, offset + count if count < len(groups) else None

    def named(self, name: str, sources: Sequence[str]) -> list[MarketplaceEntry]:
        """Return the entries with that name or id, with all their versions."""
        keys = [self._keys[source] for source in sources]
        rows = [copy.row for copy in self._store.named(name) if copy.identity.source in keys]
        groups = self._groups(rows, keys)
        return [result.entry for result in self._merged(groups, {}, {}, with_versions=True)]

    def _scaled(self, query: str, relevance: Mapping[int, float]) -> dict[int, float]:
        """Scale relevances by the share of the query that the best entry not named covers."""
        best = next((row for row, score in relevance.items() if score < 1.0), None)
        entries = self._store.rows([best] if best else [])
        scale = max((_coverage(query, entry) for entry in entries.values()), default=1.0)
        return {row: score if score == 1.0 else score * scale for row, score in relevance.items()}

    def _groups(self, rows: Sequence[int], keys: Sequence[str]) -> list[list[int]]:
        """Group rows of the same server, adding those of other sources, in the order of `rows`.

        The row with the highest precedence comes first in its group.
        """
        copies = [copy for copy in self._store.same_packages(rows) if copy.identity.source in keys]
        places = {row: place for place, row in enumerate(rows)}
        groups = [
            [copies[place].row for place in group]
            for group in group_identities([copy.identity for copy in copies], self._rank_of_key)
        ]
        firsts = {
            min(places[row] for row in group if row in places): group
            for group in groups
            if not places.keys().isdisjoint(group)
        }
        return [firsts[place] for place in sorted(firsts)]

    def _merged(
        self,
        groups: Sequence[Sequence[int]],
        relevance: Mapping[int, float],
        fresh: dict[tuple[str, str], MarketplaceEntry],
        *,
        with_versions: bool = False,
    ) -> list[FoundEntry]:
        """Merge each group into one entry.

        Entries of `fresh`, by source and name, replace their copies, and are removed from it.
        """
        entries = self._store.rows(
            [row for group in groups for row in group], with_versions=with_versions
        )
        results = []
        for group in groups:
            copies = [entries[row] for row in group if row in entries]
            there = [fresh.pop((copy.origins[0].source, copy.name), copy) for copy in copies]
            if there:
                best = max(relevance.get(row, 0.0) for row in group)
                results.append(FoundEntry(merge_group(there), best))
        return results

    def _with_live(
        self, query: str, found: Sequence[FoundEntry], live: Sequence[MarketplaceEntry]
    ) -> list[FoundEntry]:
        """Merge results of the copies with entries of package managers, the most relevant first."""
        relevance: dict[str, float] = {result.entry.id: result.relevance for result in found}
        for entry in live:
            relevance[entry.id] = max(relevance.get(entry.id, 0.0), _coverage(query, entry))
        merged = merged_entries([*(result.entry for result in found), *live], self.rank)
        results = [FoundEntry(entry, relevance.get(entry.id, 0.0)) for entry in merged]
        results.sort(key=lambda result: -result.relevance)
        return results

    def _rank_of_key(self, key: str) -> int:
        return self.rank(self._names.get(key, ""))


def _coverage(query: str, entry: MarketplaceEntry) -> float:
    """Return the share of a query's terms that an entry has; 1 if the query names the entry."""
    if not name_spellings_of(entry).isdisjoint(query_spellings(query)):
        return 1.0
    lexicon = entry_lexicon()
    query_terms = set(lexicon.analyze(telling_words(query)).terms)
    terms = {term for field in entry_terms(entry, lexicon) for term in field.split()}
    return NOT_NAMED * max(len(query_terms & terms), 0.5) / max(len(query_terms), 1)
