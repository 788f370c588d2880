"""When to act on what may be said again and again: once nobody says it any more.

    lull = Debouncer(pause=0.5, longest=10.0)
    lull.said()
    await lull.come()      half a second after it was said last, ten after it was said first

Whoever keeps saying it is heard ever less often: the pause doubles each time it is said again
soon after a lull.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio


class Debouncer:
    """`pause` and `longest` are in seconds, as is `clock`, which never goes back."""

    def __init__(
        self, *, pause: float, longest: float, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self._shortest = self._pause = pause
        self._longest = longest
        self._clock = clock
        self._first = self._last = 0.0
        self._ended: float | None = None
        self.is_pending = False
        """Whether it was said, and there has been no lull since."""

    @property
    def remaining(self) -> float:
        """Seconds until there is a lull, if it is not said again."""
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
        """Wait for the lull."""
        while rest := self.remaining:  # noqa: ASYNC110 - time is what is waited for
            await anyio.sleep(rest)

    def reset(self) -> None:
        """What was waited for is being done: from now on it is news again."""
        self.is_pending = False
        self._ended = self._clock()
