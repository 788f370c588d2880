from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rpc.scheduling import FairScheduler, Quota
from discovery_engine.upstream.http.event_stream import EventStream
from tests.rows import rows

pytestmark = pytest.mark.anyio

LIMIT = 100_000


class Rests:
    """How many bytes had come before each rest."""

    def __init__(self) -> None:
        self.seen = 0
        self.at: list[int] = []
        self.quota = Quota(FairScheduler(sleep=self.rest))

    async def rest(self, _seconds: float) -> None:
        self.at.append(self.seen)


async def stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        if chunk == b"break":
            raise OSError


async def louder(data: bytes | None) -> bytes:
    return b"(too long)" if data is None else data.upper()


async def mended(*chunks: bytes, rests: Rests | None = None) -> bytes:
    rests = rests or Rests()
    events = EventStream(
        stream(list(chunks)), louder, limit=LIMIT, quota=rests.quota, broken=(OSError,)
    )
    told = b""
    async for part in events:
        told += part
        rests.seen = len(told)
    return told


@given(st.lists(st.integers(0, 70), max_size=5))
async def test_the_data_of_events_is_mended_however_the_stream_is_cut(places: list[int]) -> None:
    text = (
        b"event: message\r\nid: a\ndata: some\r\ndata: text\r\n\r\n: note\rdata:more\r\rretry: 5\n"
    )
    places = [0, *sorted(places), len(text)]
    chunks = [text[start:end] for start, end in pairwise(places)]

    told = await mended(*chunks)

    assert told == (b"event: message\nid: a\ndata: SOME TEXT\n\n: note\ndata: MORE\n\nretry: 5\n")


@pytest.mark.parametrize("end", [b"\n", b"\ndata: more\n"])
async def test_an_event_beyond_all_bounds_costs_itself_only(end: bytes) -> None:
    parts = [b"data: " + b"x" * LIMIT, b"y" * 10, end, b"\ndata: a\n\n"]

    assert await mended(*parts) == b"data: (too long)\n\ndata: A\n\n"


@pytest.mark.requirement("UPS-13")
@rows("size", [10, 100_000])
async def test_after_some_events_comes_a_rest_before_the_next_ones(size: int) -> None:
    event = b"event: message\ndata: x\n\n"
    flood = event * 200
    rests = Rests()

    await mended(*(flood[i : i + size] for i in range(0, len(flood), size)), rests=rests)

    assert len(rests.at) >= 200 // 32
    assert max(after - before for before, after in pairwise([0, *rests.at])) <= 33 * len(event)
