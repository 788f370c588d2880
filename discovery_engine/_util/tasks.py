"""Tasks as this project uses them: their groups, and what they promise each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

T = TypeVar("T")


@asynccontextmanager
async def open_task_group() -> AsyncIterator[TaskGroup]:
    """A task group out of which a lone error comes as itself, not wrapped in a group."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        [error] = group.exceptions
        raise error from error.__cause__


async def finish(returned: object) -> None:
    """Wait for what a callback has returned, if it can be awaited."""
    if isinstance(returned, Awaitable):
        await returned


class Promise(Generic[T]):
    """A value that will be there later, for as many as want to wait for it.

    Settled once; later attempts to settle it are no-ops.
    """

    def __init__(self) -> None:
        self.value: T | None = None
        self._error: Exception | None = None
        self._settled = anyio.Event()

    @property
    def is_settled(self) -> bool:
        return self._settled.is_set()

    def set(self, value: T) -> None:
        if not self._settled.is_set():
            self.value = value
            self._settled.set()

    def fail(self, error: Exception) -> None:
        if not self._settled.is_set():
            self._error = error
            self._settled.set()

    async def wait(self) -> T:
        """The value.

        Raises:
            Exception: What the promise failed with.
        """
        if not self._settled.is_set():  # `wait` would yield to other tasks even then
            await self._settled.wait()
        if self._error is not None:
            raise self._error
        if self.value is None:
            raise AssertionError("settled with neither")
        return self.value
