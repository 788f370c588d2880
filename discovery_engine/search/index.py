"""The inverted index: for each term, the tools that hold it and how much.

A segment is what one server adds. A searcher joins the segments it needs into one block.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from discovery_engine.search.documents import Document


@dataclass(frozen=True, slots=True)
class Postings:
    docs: array[int]
    """Ascending."""
    impacts: bytearray
    """In step with `docs`."""


@dataclass(frozen=True, slots=True)
class Block:
    postings: Mapping[str, Postings]
    size: int

    @classmethod
    def of(cls, documents: Iterable[Document]) -> Block:
        postings: dict[str, Postings] = {}
        size = 0
        for size, document in enumerate(documents, 1):
            for term, impact in document.impacts.items():
                if (found := postings.get(term)) is None:
                    found = postings[term] = Postings(array("I"), bytearray())
                found.docs.append(size - 1)
                found.impacts.append(impact)
        return cls(postings, size)
