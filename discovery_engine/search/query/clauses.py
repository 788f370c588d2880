"""Clauses of a long request, each of which may ask for another tool."""

from __future__ import annotations

import re
from typing import Final

from discovery_engine.search.text.tokenizer import words

MOST_CLAUSES: Final = 16
"""Further clauses of a request are not looked at."""

# A run of marks or spaces is tried from its beginning alone; from each of its characters, a long
# one would take time that grows with the square of its length.
_BOUNDARY = re.compile(
    r"(?<![.;?!\n])[.;?!\n]+(?:\s+|$)"
    r"|,\s+(?:and\s+|then\s+)?"
    r"|(?<!\s)\s+(?:and\s+then|and\s+also|then|and|also|after\s+that|as\s+well\s+as|followed\s+by"
    r"|before|after|while)\s+",
    re.IGNORECASE,
)


def split_clauses(query: str) -> tuple[str, ...]:
    """The clauses of a request that has several of more than one word; otherwise none."""
    clauses = [
        clause for clause in map(str.strip, split_at_boundaries(query)) if len(words(clause)) > 1
    ]
    return tuple(clauses[:MOST_CLAUSES]) if len(clauses) > 1 else ()


def split_at_boundaries(query: str) -> list[str]:
    """The pieces between sentence marks, commas and conjunctions, whatever their length."""
    return _BOUNDARY.split(query)
