"""The index as bytes, so that the next process opens it instead of building it.

Whoever keeps the bytes must keep them from others: they are read back without suspicion. Bytes
of another version, of other tables of words, or of another catalog are not used.
"""

from __future__ import annotations

import hashlib
import marshal
import sys
from typing import TYPE_CHECKING

from discovery_engine.search.blocks import Block, Layer, Segment
from discovery_engine.search.index import Index, Source, joined
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from discovery_engine.search.lexicon import Lexicon
    from discovery_engine.tools import ServerName

_SHA = 32  # bytes


def dumped(index: Index, lexicon: Lexicon) -> bytes:
    """The index as bytes for `loaded`."""
    block = joined(index.layers).block
    digests = {s.server: _digest(s.server, index.sources[s.server]) for s in block.segments}
    payload = marshal.dumps(
        (
            _recipe(lexicon),
            digests,
            [tuple(segment) for segment in block.segments],
            dict(block.postings),
            dict(block.names),
        )
    )
    return hashlib.sha256(payload).digest() + payload


def loaded(data: bytes, sources: dict[ServerName, Source], lexicon: Lexicon) -> Index | None:
    """The index that was dumped; None if it is not one of these `sources`."""
    digest, payload = data[:_SHA], memoryview(data)[_SHA:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    recipe, digests, segments, postings, names = marshal.loads(payload)  # noqa: S302 - our own bytes
    if recipe != _recipe(lexicon):
        return None
    if digests != {server: _digest(server, source) for server, source in sources.items()}:
        return None
    block = Block(
        segments=tuple(Segment(*segment) for segment in segments),
        postings=postings,
        names=names,
    )
    return Index((Layer(block),) if segments else (), sources)


def _recipe(lexicon: Lexicon) -> tuple[str, ...]:
    """What the bytes depend on beside the catalog."""
    return (__version__, sys.version, sys.byteorder, lexicon.digest)


def _digest(server: ServerName, source: Source) -> bytes:
    said = [server, source.description]
    for entry in source.part.entries:
        said += entry.tool.name, entry.tool.upstream_name, entry.tool.source
    return hashlib.sha256("\0".join(said).encode("utf-8", "backslashreplace")).digest()
