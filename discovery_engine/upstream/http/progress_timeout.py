"""The time limit of a request over HTTP: progress extends it, up to a maximum."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio

from discovery_engine.rpc.peer import RequestTimeout, RequestTimeoutError
from discovery_engine.rpc.request_timer import RequestTimer


class ProgressTimeout:
    """A context manager that raises RequestTimeoutError; without a limit it never does."""

    def __init__(self, timeout: RequestTimeout | None) -> None:
        self._timeout = timeout
        self._timer: RequestTimer | None = None
        self._scope = anyio.CancelScope()
        self._error: RequestTimeoutError | None = None

    def __enter__(self) -> Self:
        if self._timeout:
            self._timer = RequestTimer(self._timeout, self._expire)
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._timer:
            self._timer.stop()
        is_handled = self._scope.__exit__(exc_type, exc, traceback)
        if self._scope.cancelled_caught and self._error:
            raise self._error
        return bool(is_handled)

    def extend(self) -> None:
        """Start the time again, within the maximum."""
        if self._timer:
            self._timer.extend()

    def _expire(self, error: RequestTimeoutError) -> None:
        self._error = error
        self._scope.cancel()
