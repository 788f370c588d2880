"""The index as bytes, so that the next process opens it instead of building it.

The bytes begin with a digest of themselves and of all that they depend on: how they are laid out,
the tables of words, the catalog. Where it is another one, nothing else of them is read. Whoever
keeps the bytes must keep them from others: anybody can make such a digest.
"""

from __future__ import annotations

import logging
import marshal
import sys
from typing import TYPE_CHECKING

from discovery_engine._util import digests, gc_pause
from discovery_engine.search.index.index import Index, Source, joined
from discovery_engine.search.index.lazy_map import Pieces, Sealed, packed, sealed
from discovery_engine.search.index.postings import Block, Layer, Segment
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import ServerName

logger = logging.getLogger(__name__)

FORMAT = 2
"""Raise it when the bytes are laid out anew, or say other things of the same tools."""


def dumped(index: Index, lexicon: Lexicon) -> bytes:
    """The index as bytes for `loaded`."""
    with gc_pause.paused():
        block = joined(index.layers).block
        segments = [tuple(segment) for segment in block.segments]
        payload = marshal.dumps((segments, packed(block.postings), sealed(block.names)))
    return _digest(payload, index.sources, lexicon) + payload


def loaded(data: bytes, sources: Mapping[ServerName, Source], lexicon: Lexicon) -> Index | None:
    """The index that was dumped; None if it is not one of these `sources`."""
    digest, payload = data[: digests.SIZE], memoryview(data)[digests.SIZE :]
    if digest != _digest(payload, sources, lexicon):
        return None
    try:
        return Index(_layers(payload), sources)
    except (EOFError, TypeError, ValueError) as error:
        logger.warning("The search index that was kept cannot be read, and is made anew: %s", error)
        return None


def _layers(payload: memoryview) -> tuple[Layer, ...]:
    segments, postings, names = marshal.loads(payload)  # noqa: S302 - our own bytes
    block = Block(
        segments=tuple(Segment(*segment) for segment in segments),
        postings=Pieces(postings),
        names=Sealed(names),
    )
    return (Layer(block),) if segments else ()


def _digest(
    payload: bytes | memoryview, sources: Mapping[ServerName, Source], lexicon: Lexicon
) -> bytes:
    recipe = FORMAT, __version__, sys.version, sys.byteorder, lexicon.digest
    made_of = [(server, one.description, one.part.digest) for server, one in sources.items()]
    blake = digests.blake2b(repr((recipe, made_of)).encode(), digest_size=digests.SIZE)
    blake.update(payload)
    return blake.digest()
