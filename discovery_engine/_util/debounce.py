"""Debounces events: waits until a burst of them is over.

    debouncer = Debouncer(pause=0.5, longest=10.0)
    debouncer.trigger()
    await debouncer.wait()      half a second after the last event, at most ten after the first

A source that goes on triggering is served less and less often: the pause doubles with each burst
that follows soon after the last one.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio


class Debouncer:
    """`pause` and `longest` are in seconds; `clock` is monotonic."""

    def __init__(
        self, *, pause: float, longest: float, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self._shortest = self._pause = pause
        self._longest = longest
        self._clock = clock
        self._first = self._last = 0.0
        self._ended: float | None = None
        self.is_pending = False
        """True if it was triggered and not reset since."""

    @property
    def remaining(self) -> float:
        """Seconds to wait if it is not triggered again."""
        due = min(self._last + self._pause, self._first + self._longest)
        return max(0.0, due - self._clock())

    def trigger(self) -> None:
        self._last = self._clock()
        if self.is_pending:
            return
        self.is_pending = True
        self._first = self._last
        is_soon = self._ended is not None and self._last - self._ended < self._longest
        self._pause = min(2 * self._pause, self._longest) if is_soon else self._shortest

    async def wait(self) -> None:
        """Wait until the burst is over."""
        while rest := self.remaining:  # noqa: ASYNC110 - it waits for time to pass
            await anyio.sleep(rest)

    def reset(self) -> None:
        """End the burst: the next event begins another one."""
        self.is_pending = False
        self._ended = self._clock()
