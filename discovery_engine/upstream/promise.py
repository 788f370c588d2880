"""A value that will be there later, for as many as want to wait for it."""

from __future__ import annotations

from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Promise(Generic[T]):
    """Settled once; later attempts to settle it are no-ops."""

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
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        if self.value is None:
            raise AssertionError("settled with neither")
        return self.value
