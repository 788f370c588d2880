"""Values that are kept while anything uses them, and the last ones also without."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class KeptInUse(Generic[K, V]):
    """A value is the same one for its key as long as anything refers to it."""

    def __init__(self, most: int) -> None:
        """`most` is how many are kept that nothing else refers to."""
        self._most = most
        self._all: WeakValueDictionary[K, V] = WeakValueDictionary()
        self._last: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def get(self, key: K) -> V | None:
        """None if there is none any more."""
        value = self._all.get(key)
        if value is not None:
            self._use(key, value)
        return value

    def add(self, key: K, value: V) -> None:
        self._all[key] = value
        self._use(key, value)

    def _use(self, key: K, value: V) -> None:
        self._last[key] = value
        self._last.move_to_end(key)
        if len(self._last) > self._most:
            self._last.popitem(last=False)
