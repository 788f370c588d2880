"""The index as bytes, so that the next process opens it instead of building it.

Whoever keeps the bytes must keep them from others: they are read back without suspicion. Bytes
of another version, of other tables of words, or of another catalog are not used.
"""

from __future__ import annotations

import hashlib
import marshal
import sys
from typing import TYPE_CHECKING

from discovery_engine import collector
from discovery_engine.search.blocks import Block, Layer, Segment
from discovery_engine.search.index import Index, Source, joined
from discovery_engine.search.pieces import Pieces, Sealed, packed, sealed
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discovery_engine.search.lexicon import Lexicon
    from discovery_engine.tools import ServerName

_SHA = 32  # bytes


def dumped(index: Index, lexicon: Lexicon) -> bytes:
    """The index as bytes for `loaded`."""
    with collector.paused():
        block = joined(index.layers).block
        payload = marshal.dumps(
            (
                _recipe(lexicon),
                _made_of(index.sources),
                [tuple(segment) for segment in block.segments],
                packed(block.postings),
                sealed(block.names),
            )
        )
    return hashlib.sha256(payload).digest() + payload


def loaded(data: bytes, sources: Mapping[ServerName, Source], lexicon: Lexicon) -> Index | None:
    """The index that was dumped; None if it is not one of these `sources`."""
    digest, payload = data[:_SHA], memoryview(data)[_SHA:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    recipe, made_of, segments, postings, names = marshal.loads(payload)  # noqa: S302 - our own bytes
    if recipe != _recipe(lexicon):
        return None
    if made_of != _made_of(sources):
        return None
    block = Block(
        segments=tuple(Segment(*segment) for segment in segments),
        postings=Pieces(postings),
        names=Sealed(names),
    )
    return Index((Layer(block),) if segments else (), sources)


def _recipe(lexicon: Lexicon) -> tuple[str, ...]:
    """What the bytes depend on beside the catalog."""
    return (__version__, sys.version, sys.byteorder, lexicon.digest)


def _made_of(sources: Mapping[ServerName, Source]) -> dict[ServerName, tuple[str, bytes]]:
    return {server: (one.description, one.part.digest) for server, one in sources.items()}
