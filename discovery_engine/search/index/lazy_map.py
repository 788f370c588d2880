"""Mappings as bytes, of which a key costs what it takes to open the piece that holds it.

Like `marshal` they trust their bytes. Any thread may read them.
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, TypeVar
from zlib import crc32

V = TypeVar("V")

_KEYS = 8  # in a piece, about


def sealed(mapping: Mapping[int, Any]) -> dict[int, bytes]:
    """`mapping` for `Sealed`; its values must be plain ones."""
    return {key: marshal.dumps(value) for key, value in mapping.items()}


class Sealed(Mapping[int, V]):
    """What was `sealed`: each value is a piece of its own."""

    def __init__(self, values: Mapping[int, bytes]) -> None:
        self._values = values
        self._met: dict[int, V] = {}

    def __getitem__(self, key: int) -> V:
        if key not in self._met:
            self._met[key] = marshal.loads(self._values[key])  # noqa: S302 - our own bytes
        return self._met[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def packed(mapping: Mapping[str, Any]) -> list[bytes]:
    """`mapping` for `Pieces`; its values must be plain ones."""
    count = len(mapping) // _KEYS + 1
    pieces: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for key, value in mapping.items():
        pieces[_number(key, count)][key] = value
    return [marshal.dumps(pieces[number]) for number in range(count)]


class Pieces(Mapping[str, V]):
    """What was `packed`: keys are spread over small pieces by their checksums."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._count = len(pieces)
        self._closed = dict(enumerate(pieces))
        self._met: dict[str, V] = {}

    def get(self, key: str, default: Any = None) -> Any:
        found = self._met.get(key)
        if found is None and self._closed:
            self._open(_number(key, self._count))
            found = self._met.get(key)
        return default if found is None else found

    def items(self) -> ItemsView[str, V]:
        return self._all().items()

    def __getitem__(self, key: str) -> V:
        self._open(_number(key, self._count))
        return self._met[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, V]:
        for number in list(self._closed):
            self._open(number)
        return self._met

    def _open(self, number: int) -> None:
        if piece := self._closed.get(number):
            self._met.update(marshal.loads(piece))  # noqa: S302 - our own bytes
            self._closed.pop(number, None)  # last, so that no thread misses what it holds


def _number(key: str, count: int) -> int:
    return crc32(key.encode("utf-8", "surrogatepass")) % count
