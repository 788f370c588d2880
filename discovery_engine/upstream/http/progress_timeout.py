"""The time limit of a request over HTTP: progress extends it, up to a maximum."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

import anyio

from discovery_engine.rpc.peer import RequestTimeout, RequestTimeoutError


class ProgressTimeout:
    """A context manager that raises RequestTimeoutError; without a limit it never does."""

    def __init__(self, timeout: RequestTimeout | None) -> None:
        self._step = timeout.seconds if timeout else math.inf
        self._longest = max(self._step, timeout.longest) if timeout else math.inf
        self._scope = anyio.CancelScope()
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = anyio.current_time()
        self._scope.deadline = self._began + self._step
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        is_handled = self._scope.__exit__(exc_type, exc, traceback)
        if self._scope.cancelled_caught:
            is_last = self._scope.deadline >= self._began + self._longest
            raise RequestTimeoutError(self._longest if is_last else self._step)
        return bool(is_handled)

    def extend(self) -> None:
        """Start the time again, within the maximum."""
        latest = self._began + self._longest
        self._scope.deadline = min(latest, anyio.current_time() + self._step)
