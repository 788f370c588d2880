"""An entry as a document of the search index: terms with impacts, as tools have them.

They are kept beside the entry, so that a new index is made without reading its texts again: with
20,000 entries that takes a second instead of six.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from discovery_engine.search.index.documents import Document, Field, build_document
from discovery_engine.search.text.lexicon import Lexicon
from discovery_engine.search.text.spelling import normalize_name

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import MarketplaceEntry

# As the fields of a tool; the name of a package or a tool counts less than the server's own.
_NAME = Field("name", 1.5)
_TITLE = Field("title", 1.5)
_DESCRIPTION = Field("description", 1.0, slope=0.75, usual_length=14)
_PACKAGES = Field("packages", 0.6, slope=0.5, usual_length=4)
_PUBLISHER = Field("publisher", 0.6, slope=0.5, usual_length=2)
_TAGS = Field("tags", 0.8, slope=0.75, usual_length=4)
_TOOL_NAMES = Field("tool_names", 1.0, slope=0.75, usual_length=20)
_TOOL_TEXTS = Field("tool_texts", 0.6, slope=0.75, usual_length=100)

_MOST_TOOLS = 100  # whose texts are read; a server with more is found by its own
_MOST_TEXT = 1_000  # characters of a description
_MOST_TERMS = 1_000
_CHUNKS = 8_000  # whose terms are kept; the usual 50,000 take 25 MiB, and save 5 % of the time
_FIXED = re.compile(r"(?i)\b(?:mcp|server|servers|modelcontextprotocol|model context protocol)\b")
"""Words of nearly every name here, which tell no two entries apart."""


@cache
def entry_lexicon() -> Lexicon:
    """The usual lexicon, with fewer chunks in memory: entries of strangers repeat few of them."""
    return Lexicon(memory=_CHUNKS)


def read_entry(entry: MarketplaceEntry, lexicon: Lexicon) -> Document:
    """What the index keeps of an entry."""
    name = lexicon.analyze_name(_own_words(short_name(entry.name)))
    language = lexicon.detect_tool_language(entry.description)
    texts = [
        (_NAME, name),
        (_TITLE, lexicon.analyze_name(_own_words(entry.title), language)),
        (_DESCRIPTION, lexicon.analyze(entry.description[:_MOST_TEXT], language)),
        (_PACKAGES, lexicon.analyze_name(_own_words(" ".join(_identifiers(entry))))),
        (_PUBLISHER, lexicon.analyze_name(_publisher(entry))),
        (_TAGS, lexicon.analyze(" ".join(entry.tags))),
    ]
    if tools := (entry.tools or ())[:_MOST_TOOLS]:
        names = " ".join(tool.name for tool in tools)
        described = " ".join(tool.description for tool in tools)
        texts.append((_TOOL_NAMES, lexicon.analyze(names)))
        texts.append((_TOOL_TEXTS, lexicon.analyze(described, language)))
    document = build_document(name, texts)
    if len(document) > _MOST_TERMS:
        heaviest = sorted(document.items(), key=lambda item: (-item[1], item[0]))[:_MOST_TERMS]
        return dict(heaviest)
    return document


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
    kept = _FIXED.sub(" ", re.sub(r"[-_/@.]", " ", text)).strip()
    return kept or text


def _identifiers(entry: MarketplaceEntry) -> Iterator[str]:
    return (offer.identifier for offer in entry.packages if offer.registry_type != "mcpb")


def _publisher(entry: MarketplaceEntry) -> str:
    return entry.publisher.removeprefix("github.com/").removesuffix(".com")
