"""Writes together what is ready while another write is under way, as databases commit in groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")
R = TypeVar("R")


class _Group(Generic[T, R]):
    def __init__(self) -> None:
        self.items: list[T] = []
        self.results: Sequence[R] = ()
        self.error: Exception | None = None
        self.written = anyio.Event()


class GroupCommit(Generic[T, R]):
    """A writer that groups items; a lone item is written at once, and none waits for others.

    Args:
        turn: Held during a write; whatever else takes it has groups gather meanwhile.
        write: Writes items; returns a result for each, in their order.
    """

    def __init__(
        self,
        turn: Callable[[], AbstractAsyncContextManager[None]],
        write: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
    ) -> None:
        self._turn = turn
        self._write = write
        self._gathering: _Group[T, R] | None = None

    async def add(self, item: T) -> R:
        """The result of an item, which is written even if its caller is cancelled.

        Raises:
            Exception: What `write` raised, for each item of the group.
        """
        group = self._gathering
        is_first = group is None
        if group is None:
            group = self._gathering = _Group()
        position = len(group.items)
        group.items.append(item)
        if is_first:
            with anyio.CancelScope(shield=True):  # others of the group wait for this task
                await self._commit(group)
        else:
            await group.written.wait()
        if group.error:
            raise group.error
        return group.results[position]

    async def _commit(self, group: _Group[T, R]) -> None:
        async with self._turn():
            self._gathering = None
            try:
                group.results = await self._write(group.items)
            except Exception as error:  # noqa: BLE001 - for those whose items these are
                group.error = error
            # All callers go on at the same time: workers then ask for their next claims together.
            group.written.set()
