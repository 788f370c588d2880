"""Vectors of half precision as pgvector has them, without its client library."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discovery_engine.search.database.vector_store import StoredVector
    from discovery_engine.search.embedders import Vector

_HEAD = struct.Struct(">HH")  # how many numbers, and nothing


def of_binary(data: bytes) -> bytes:
    """A value of the binary protocol as `search.vectors.pack` makes it."""
    numbers = array("H", data[_HEAD.size :])
    numbers.byteswap()  # the protocol has the high byte first, what is stored the low one
    return numbers.tobytes()


def to_binary(vector: StoredVector) -> tuple[bytes, bytes | None, bytes | None]:
    """What is searched for, and the vectors of text and examples if it is none of the two."""
    from discovery_engine.search.arrays import np  # noqa: PLC0415 - slow to load

    text = np.frombuffer(vector.text, "<f2")
    if vector.requests is None:
        return _value(text.astype(">f2")), None, None
    requests = np.frombuffer(vector.requests, "<f2")
    both = (text.astype("f4") + requests.astype("f4")) / 2
    return (
        _value(both.astype(">f2")),
        _value(text.astype(">f2")),
        _value(requests.astype(">f2")),
    )


def as_text(vector: Vector) -> str:
    return f"[{','.join(f'{number:.6g}' for number in vector)}]"


def _value(numbers: Any) -> bytes:
    return _HEAD.pack(len(numbers), 0) + bytes(numbers.tobytes())
