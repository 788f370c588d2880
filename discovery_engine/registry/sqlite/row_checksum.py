"""The checksum of a row, by which damage that leaves the file readable shows."""

from __future__ import annotations

from collections.abc import Sequence

from discovery_engine._util.digests import blake2b


def checksum_of(*columns: object) -> str:
    return blake2b(repr(columns).encode(), digest_size=8).hexdigest()


def is_intact(row: Sequence[object], checksum: object) -> bool:
    return checksum == checksum_of(*row)
