"""How long a call may take: as long as it tells of its progress, and never for ever."""

from __future__ import annotations

from types import TracebackType

import anyio

from discovery_engine.upstream.rpc_client import OnProgress

_LONGEST = 600.0  # seconds, however often it tells of its progress


class CallTimeout:
    """The time limit of one call; `on_progress` is what to give the call for its progress.

    As a context it raises TimeoutError at the end of the timeout.
    """

    def __init__(
        self, seconds: float, on_progress: OnProgress | None, *, longest: float = _LONGEST
    ) -> None:
        self._step = seconds
        self._longest = max(seconds, longest)
        self._tell = on_progress
        self._scope = anyio.CancelScope()
        self._began = 0.0
        self.on_progress = self._extend if on_progress else None

    @property
    def seconds(self) -> float:
        """How long there was nothing to hear; the longest time at all, if that was it."""
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
        if self._tell is not None:
            await self._tell(progress, total, message)
