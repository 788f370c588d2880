"""The index as bytes, so that the next process loads it instead of building it.

To load 5,000 tools takes 5 ms, to build their index a second. `marshal` reads the payload in
0.4 ms: it parses no text and makes no instances of classes.

    digest    of everything below, and of everything that the bytes depend on
    payload   marshal of (spans, buckets of posting lists and their filter, names by length,
              profiles)

The digest covers the format, the versions of this project and of Python, the lexicon, and the
catalog. If it differs, the payload is not read. It is a checksum and no signature: every user can
compute it, so the bytes must be stored where no other user can write.
"""

from __future__ import annotations

import logging
import marshal
import sys
from typing import TYPE_CHECKING

from discovery_engine._util import digests, gc_pause
from discovery_engine.search.index.index import Index, IndexedServer
from discovery_engine.search.index.lazy_map import (
    LazyBuckets,
    LazyValues,
    pack_buckets,
    pack_values,
)
from discovery_engine.search.index.levels import Level, merged
from discovery_engine.search.index.postings import Postings, ServerSpan
from discovery_engine.search.operations.operation_words import operation_words_digest
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import ServerName

logger = logging.getLogger(__name__)

FORMAT = 5
"""Raise it when the layout of the bytes changes, or when the same tools give other bytes."""


def dump_index(index: Index, lexicon: Lexicon) -> bytes:
    """The index as bytes for `load_index`: one level without deleted tools."""
    with gc_pause.paused():
        postings = merged(index.levels).postings
        spans = [tuple(span) for span in postings.spans]
        lists, names = pack_buckets(postings.lists), pack_values(postings.names)
        payload = marshal.dumps((spans, lists, names, postings.profiles))
    return _digest(payload, index.servers, lexicon) + payload


def load_index(
    data: bytes, servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon
) -> Index | None:
    """The index that was dumped; None if it is of other `servers`, or cannot be read."""
    digest, payload = data[: digests.SIZE], memoryview(data)[digests.SIZE :]
    if digest != _digest(payload, servers, lexicon):
        return None
    try:
        return Index(_levels(payload), servers)
    except (EOFError, TypeError, ValueError) as error:
        logger.warning("The search index that was kept cannot be read, and is made anew: %s", error)
        return None


def _levels(payload: memoryview) -> tuple[Level, ...]:
    spans, lists, names, profiles = marshal.loads(payload)  # noqa: S302 - our own bytes
    postings = Postings(
        spans=tuple(ServerSpan(*span) for span in spans),
        lists=LazyBuckets(lists),
        names=LazyValues(names),
        profiles=profiles,
    )
    return (Level(postings),) if spans else ()


def _digest(
    payload: bytes | memoryview, servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon
) -> bytes:
    recipe = (
        FORMAT,
        __version__,
        sys.version,
        sys.byteorder,
        lexicon.digest,
        operation_words_digest(),
    )
    made_of = [
        (server, indexed_server.description, indexed_server.part.digest, indexed_server.book.digest)
        for server, indexed_server in servers.items()
    ]
    blake = digests.blake2b(repr((recipe, made_of)).encode(), digest_size=digests.SIZE)
    blake.update(payload)
    return blake.digest()
