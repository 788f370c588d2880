"""The time limit of a call: each progress notification extends it, up to a maximum."""

from __future__ import annotations

from types import TracebackType

import anyio

from discovery_engine.upstream.rpc_client import OnProgress

_LONGEST = 600.0  # seconds, however often progress is reported


class CallTimeout:
    """A context manager that raises TimeoutError; pass its `on_progress` to the call."""

    def __init__(
        self, seconds: float, on_progress: OnProgress | None, *, longest: float = _LONGEST
    ) -> None:
        self._step = seconds
        self._longest = max(seconds, longest)
        self._report = on_progress
        self._scope = anyio.CancelScope()
        self._began = 0.0
        self.on_progress = self._extend if on_progress else None

    @property
    def seconds(self) -> float:
        """The limit that applied: seconds without progress, or the maximum if that was reached."""
        is_last = self._scope.deadline >= self._began + self._longest
        return self._longest if is_last else self._step

    def __enter__(self) -> None:
        self._began = anyio.current_time()
        self._scope.deadline = self._began + self._step
        self._scope.__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        is_handled = self._scope.__exit__(exc_type, exc, traceback)
        if self._scope.cancelled_caught:
            raise TimeoutError
        return bool(is_handled)

    async def _extend(self, progress: float, total: float | None, message: str | None) -> None:
        latest = self._began + self._longest
        self._scope.deadline = min(latest, anyio.current_time() + self._step)
        if self._report is not None:
            await self._report(progress, total, message)
