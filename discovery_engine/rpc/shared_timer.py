"""Many deadlines with one timer of the event loop, as nearly all are withdrawn before they are due.

A timer of the event loop for each, cancelled again, took a twentieth of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from math import inf
from typing import TypeAlias

Look: TypeAlias = Callable[[], float | None]
"""Called when a deadline is due; returns the next one, or None if it is over."""


class SharedTimer:
    """Deadlines, in the event loop's time, by a key of their owner."""

    def __init__(self) -> None:
        self._deadlines: dict[Hashable, tuple[float, Look]] = {}
        self._next = inf
        """When the timer looks; later deadlines need no other timer."""
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, key: Hashable, deadline: float, look: Look) -> None:
        self._deadlines[key] = deadline, look
        if deadline < self._next:
            self._wake_at(deadline)

    def discard(self, key: Hashable) -> None:
        """No-op if it is not there. The timer stays: it looks once for nothing."""
        self._deadlines.pop(key, None)

    def _wake_at(self, deadline: float) -> None:
        if self._handle:
            self._handle.cancel()
        self._next = deadline
        self._handle = asyncio.get_running_loop().call_at(deadline, self._look)

    def _look(self) -> None:
        self._handle, self._next = None, inf
        now = asyncio.get_running_loop().time()
        due = [(key, look) for key, (deadline, look) in self._deadlines.items() if deadline <= now]
        for key, look in due:
            if key not in self._deadlines:  # withdrawn by one that was due before
                continue
            if (deadline := look()) is None:
                self._deadlines.pop(key, None)
            else:
                self._deadlines[key] = deadline, look
        if self._deadlines:
            self._wake_at(min(deadline for deadline, _ in self._deadlines.values()))
