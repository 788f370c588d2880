"""Mappings as bytes of which one value can be read without decoding the others.

A process that answers one query needs a few of many posting lists, and decodes no others. With
5,000 tools, which have 18,800 lists, an index loads in 5 ms, most of it for the digest, and a query
adds 1 ms; to decode all lists would take 11 to 15 ms more.

The bytes are made and read with `marshal`, and must come from a place that no other user can write
to. Any number of threads may read one map.
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from zlib import crc32

V = TypeVar("V")

# Keys of a bucket, on average. Smaller ones cost an object each when the payload is read, larger
# ones more time for each of a query's terms.
_BUCKET_SIZE = 8
_FILTER_BITS = 16  # for each key: one absent key in 16 passes the filter


def pack_values(mapping: Mapping[int, Any]) -> dict[int, bytes]:
    """`mapping` for `LazyValues`; its values must be of types that `marshal` writes."""
    return {key: marshal.dumps(value) for key, value in mapping.items()}


class LazyValues(Mapping[int, V]):
    """A mapping over the result of `pack_values`: each value is decoded at its first use."""

    def __init__(self, values: Mapping[int, bytes]) -> None:
        self._values = values
        self._decoded: dict[int, V] = {}

    def __getitem__(self, key: int) -> V:
        if key not in self._decoded:
            self._decoded[key] = marshal.loads(self._values[key])  # noqa: S302 - our own bytes
        return self._decoded[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def pack_buckets(mapping: Mapping[str, Any]) -> tuple[bytes, list[bytes]]:
    """`mapping` for `LazyBuckets`; its values must be of types that `marshal` writes.

    A filter (a Bloom filter with one hash function), and the buckets. A value is looked up when its
    bucket is written, and dropped then, so that a mapping may make values that it does not keep.
    """
    count = len(mapping) // _BUCKET_SIZE + 1
    buckets: defaultdict[int, list[str]] = defaultdict(list)
    held = bytearray(count * _BUCKET_SIZE * _FILTER_BITS // 8)
    for key in mapping:
        checksum = _checksum(key)
        buckets[checksum % count].append(key)
        held[(checksum >> 3) % len(held)] |= 1 << (checksum & 7)
    return bytes(held), [
        marshal.dumps({key: mapping[key] for key in buckets.pop(number, ())})
        for number in range(count)
    ]


class LazyBuckets(Mapping[str, V]):
    """A hash table over the result of `pack_buckets`: a bucket is decoded at its first use.

    A query with a typo looks up some 300 words, of which hardly one is there: the filter passes
    over most of them, and their buckets stay encoded.
    """

    def __init__(self, packed: tuple[bytes, list[bytes]]) -> None:
        self._filter, buckets = packed
        self._count = len(buckets)
        self._encoded = dict(enumerate(buckets))
        self._decoded: dict[str, V] = {}

    def get(self, key: str, default: Any = None) -> Any:
        value = self._decoded.get(key)
        if value is None and self._encoded:
            self._decode_for(key)
            value = self._decoded.get(key)
        return default if value is None else value

    def among(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that are there; to look up each would take four times as long."""
        bits, size = self._filter, len(self._filter)
        sums = [(key, crc32(key.encode("utf-8", "surrogatepass"))) for key in keys]
        passed = [key for key, crc in sums if bits[(crc >> 3) % size] & 1 << (crc & 7)]
        return {key for key in passed if self.get(key) is not None}

    def items(self) -> ItemsView[str, V]:
        return self._all().items()

    def __getitem__(self, key: str) -> V:
        self._decode_for(key)
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, V]:
        for number in list(self._encoded):
            self._decode(number)
        return self._decoded

    def _may_be_encoded(self, key: str) -> bool:
        checksum = _checksum(key)
        return bool(self._filter[(checksum >> 3) % len(self._filter)] & 1 << (checksum & 7))

    def _decode_for(self, key: str) -> None:
        """Decode the bucket that a key may be in."""
        if self._may_be_encoded(key):
            self._decode(_checksum(key) % self._count)

    def _decode(self, number: int) -> None:
        if bucket := self._encoded.get(number):
            self._decoded.update(marshal.loads(bucket))  # noqa: S302 - our own bytes
            # Removed after its keys are there: a thread that finds the bucket gone must find them.
            self._encoded.pop(number, None)


def _checksum(key: str) -> int:
    # Not `hash`: that of a text is another in every process.
    return crc32(key.encode("utf-8", "surrogatepass"))
