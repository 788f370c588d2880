"""Terms as numbers that a database indexes.

A number is 60 bits of a digest of the term and 4 bits of its impact, the highest ones. So a sum
of impacts is made of the index alone, and no document is read for it. Of 60 bits, two of a
million terms are the same with a probability of one in two million; then a tool that does not fit
may be looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from discovery_engine._util.digests import blake2b
from discovery_engine.search.database.search_store import StoredDocument

LEVELS = 16
_LEVEL_WIDTH = 16  # impacts: 256 of them
_MOST_KEPT = 200_000  # keys; to make one takes a microsecond, and each tool has eighty


class TermKeys:
    """The keys of one index: those of another differ, so that one table can hold several."""

    def __init__(self, index: int) -> None:
        self._index = index.to_bytes(8, "big")
        self._known: dict[str, int] = {}

    def key(self, term: str) -> int:
        """The key of a term, with level 0."""
        known = self._known.get(term)
        if known is None:
            digest = blake2b(
                term.encode("utf-8", "surrogatepass"), digest_size=8, key=self._index
            ).digest()
            known = int.from_bytes(digest, "big", signed=True) & -LEVELS
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[term] = known
        return known

    def stored(self, profile: int, document: Mapping[str, int]) -> StoredDocument:
        pairs = sorted((self.key(term), impact) for term, impact in document.items())
        keys = [key | impact // _LEVEL_WIDTH for key, impact in pairs]
        return StoredDocument(profile, keys, bytes(impact for _, impact in pairs))

    def weights(self, terms: Mapping[str, float]) -> dict[int, float]:
        """What holding each key of these terms is worth: the weight times about the impact.

        In the order of the terms, of each the highest impacts first.
        """
        return {
            self.key(term) | level: weight * (level * _LEVEL_WIDTH + _LEVEL_WIDTH / 2)
            for term, weight in terms.items()
            for level in reversed(range(LEVELS))
        }


def impact_of(document: StoredDocument, key: int) -> int:
    """The impact of the term with that key; 0 if the tool does not hold it."""
    keys: Sequence[int] = document.keys
    at = bisect_left(keys, key)
    return document.impacts[at] if at < len(keys) and keys[at] & -LEVELS == key else 0


def held_by(documents: Mapping[int, StoredDocument], key: int) -> Iterator[tuple[int, int]]:
    """The numbers of the documents that hold a key, in their order, with its impacts."""
    for number, document in documents.items():
        if impact := impact_of(document, key):
            yield number, impact
