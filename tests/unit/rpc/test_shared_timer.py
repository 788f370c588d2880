"""Many deadlines with one timer: each is due at its time, and none that was withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rpc.request_timer import SharedTimer

pytestmark = pytest.mark.anyio


class ManualLoop(asyncio.SelectorEventLoop):
    """Its time passes only by `advance`, and its timers are counted."""

    now = 0.0
    timers = 0

    def time(self) -> float:
        return self.now

    def call_at(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.timers += 1
        return super().call_at(*args, **kwargs)

    def advance(self, now: float) -> None:
        """Run what is due until `now`, in the order of time."""
        while self._scheduled and self._scheduled[0].when() <= now:  # type: ignore[attr-defined]
            self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
            self.run_until_complete(asyncio.sleep(0))
        self.now = now


@contextmanager
def manual_loop() -> Iterator[ManualLoop]:
    loop = ManualLoop()
    try:
        yield loop
    finally:
        loop.close()


DEADLINES = st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=20)


@given(DEADLINES, st.integers(0, 60))
def test_what_is_due_and_was_not_withdrawn_is_looked_at_once(
    deadlines: list[tuple[int, bool]], until: int
) -> None:
    with manual_loop() as loop:
        seen: list[int] = []

        async def fill() -> SharedTimer:
            timers = SharedTimer()
            for number, (deadline, _) in enumerate(deadlines):
                timers.add(number, deadline, lambda number=number: seen.append(number))
            for number, (_, is_withdrawn) in enumerate(deadlines):
                if is_withdrawn:
                    timers.discard(number)
            return timers

        timers = loop.run_until_complete(fill())
        loop.advance(until)

        left = {number for number, (_, gone) in enumerate(deadlines) if not gone}
        due = {number for number in left if deadlines[number][0] <= until}
        assert sorted(seen) == sorted(due)
        assert [deadlines[one][0] for one in seen] == sorted(deadlines[one][0] for one in due)
        assert len(timers) == len(left - due)
