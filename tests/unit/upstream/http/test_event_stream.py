"""Events are read however a stream is cut; what is too long, or a flood, costs itself only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rpc.scheduling import FairScheduler, Quota
from discovery_engine.upstream.http.event_stream import Event, EventStream
from tests.rows import rows

pytestmark = pytest.mark.anyio

LIMIT = 100_000


class Pauses:
    """The number of events before each pause."""

    def __init__(self) -> None:
        self.seen = 0
        self.at: list[int] = []
        self.quota = Quota(FairScheduler(sleep=self.pause))

    async def pause(self, _seconds: float) -> None:
        self.at.append(self.seen)


async def stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        if chunk == b"break":
            raise OSError


async def events(*chunks: bytes, pauses: Pauses | None = None) -> list[Event]:
    pauses, read = pauses or Pauses(), []
    source = EventStream(stream(list(chunks)), limit=LIMIT, quota=pauses.quota, broken=(OSError,))
    async for event in source:
        read.append(event)
        pauses.seen = len(read)
    return read


@given(st.lists(st.integers(0, 80), max_size=5))
async def test_events_are_read_however_the_stream_is_cut(places: list[int]) -> None:
    text = (
        b"\xef\xbb\xbfevent: ping\r\nid: a\ndata: some\r\ndata: text\r\n\r\n: note\rdata:more\r\r"
        b"retry: 5\n\nname: x\n\nid: b\0\n\nretry: soon\ndata\n\ndata: unfinished"
    )
    places = [0, *sorted(places), len(text)]

    chunks = [text[start:end] for start, end in pairwise(places)]
    read = await events(*chunks, b"break", b"data: after\n\n")

    assert read == [
        Event("ping", b"some text", "a"),
        Event(data=b"more"),
        Event(retry=0.005),
        Event(),
        Event(),
    ]


@pytest.mark.parametrize("end", [b"\n", b"\ndata: more\n"])
async def test_an_event_beyond_all_bounds_costs_itself_only(end: bytes) -> None:
    parts = [b"data: " + b"x" * LIMIT, b"y" * 10, end, b"\ndata: a\n\n"]

    assert await events(*parts) == [Event(data=None), Event(data=b"a")]


@pytest.mark.requirement("UPS-13")
@rows("size", [10, 100_000])
async def test_after_some_events_comes_a_pause_before_the_next_ones(size: int) -> None:
    event = b"event: message\ndata: x\n\n"
    flood = event * 200
    pauses = Pauses()

    await events(*(flood[i : i + size] for i in range(0, len(flood), size)), pauses=pauses)

    assert len(pauses.at) >= 200 // 32
    assert max(after - before for before, after in pairwise([0, *pauses.at])) <= 33
