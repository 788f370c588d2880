"""The words of an entry as terms of the full-text index: stems, and what they are about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_engine.search.text.lexicon import CONCEPT, SUBJECT, Lexicon
from discovery_engine.search.text.spelling import normalize_name

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import MarketplaceEntry

COLUMNS = ("name", "title", "description", "packages", "publisher", "tags", "tools", "related")
WEIGHTS = (4.0, 4.0, 2.5, 1.5, 1.0, 2.0, 1.5, 1.0)
"""Weights of the columns; the name of a package or a tool counts less than the server's own."""
_MOST_TOOLS = 100  # whose texts are read; a server with more is found by its own
_MOST_TEXT = 1_000  # characters of a description
_ABOUT = (CONCEPT, SUBJECT)
_FIXED = re.compile(r"(?i)\b(?:mcp|server|servers|modelcontextprotocol|model context protocol)\b")
"""Words of nearly every name here, which tell no two entries apart."""


def entry_terms(entry: MarketplaceEntry, lexicon: Lexicon) -> list[str]:
    """The text of each column: terms with spaces between them."""
    language = lexicon.detect_tool_language(entry.description)
    tools = (entry.tools or ())[:_MOST_TOOLS]
    described = " ".join(f"{tool.name} {tool.description}" for tool in tools)
    publisher = entry.publisher.removeprefix("github.com/").removesuffix(".com")
    fields = (
        lexicon.analyze_name(_own_words(short_name(entry.name))),
        lexicon.analyze_name(_own_words(entry.title), language),
        lexicon.analyze(entry.description[:_MOST_TEXT], language),
        lexicon.analyze_name(_own_words(" ".join(_identifiers(entry)))),
        lexicon.analyze_name(publisher),
        lexicon.analyze(" ".join(entry.tags)),
        lexicon.analyze(described, language),
    )
    terms = [dict.fromkeys(field.terms) for field in fields]
    related = {term: None for field in terms for term in field if term.startswith(_ABOUT)}
    words = [[term for term in field if term not in related] for field in terms]
    return [" ".join(field) for field in (*words, related)]


def plain_terms(terms: Iterable[str]) -> set[str]:
    """Return the terms that are words, without the concepts and subjects that words are about."""
    return {term for term in terms if not term.startswith(_ABOUT)}


def match_of(terms: Iterable[str]) -> str:
    """The expression of FTS5 that any of some terms matches; empty without any."""
    quoted = (term.replace('"', '""').replace("\0", "") for term in dict.fromkeys(terms))
    return " OR ".join(f'"{term}"' for term in quoted if any(map(str.isalnum, term)))


def name_spellings_of(entry: MarketplaceEntry) -> set[str]:
    """The names under which an entry is known, folded: a query that is one names the entry."""
    names = [entry.name, short_name(entry.name), entry.title, *_identifiers(entry)]
    names += [short_name(identifier) for identifier in _identifiers(entry)]
    names += [_own_words(name) for name in names]
    return {normalize_name(name) for name in names if name.strip()} - {""}


def telling_words(query: str) -> str:
    """A query without the words that nearly every entry has; empty if it has no others."""
    return " ".join(_FIXED.sub(" ", query).split())


def short_name(name: str) -> str:
    """The part of a name that its namespace does not say: `files` of `io.github.acme/files`."""
    return name.rpartition("/")[2] or name


def _own_words(text: str) -> str:
    words = _FIXED.sub(" ", re.sub(r"[-_/@.]", " ", text)).strip()
    return words or text


def _identifiers(entry: MarketplaceEntry) -> Iterator[str]:
    return (offer.identifier for offer in entry.packages if offer.registry_type != "mcpb")
