"""A cache that keeps what was used last, up to a total size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SizedLru(Generic[K, V]):
    """As `functools.lru_cache` bounds the number of values, this bounds the sum of their sizes.

    The sizes are the caller's, in any unit. A value of more than a hundredth of the whole is not
    kept: it would displace too many others. Safe to use from several threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    @property
    def size(self) -> int:
        """The sum of the sizes of the values; never more than `most`."""
        return self._size

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def add(self, key: K, value: V, size: int) -> None:
        if size > self._most // 100:
            return
        with self._lock:
            if key in self._values:
                return
            self._values[key] = value, size
            self._size += size
            while self._size > self._most:
                _, (_, freed) = self._values.popitem(last=False)
                self._size -= freed
