"""Many items as a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size: Callable[[T], int], *, most: int) -> Iterator[list[T]]:
    """The items in their order, as many at a time as come to `most`, and one at least."""
    batch, total = list[T](), 0
    for item in items:
        added = size(item)
        if batch and total + added > most:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += added
    if batch:
        yield batch
