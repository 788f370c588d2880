from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rpc.scheduling import FairScheduler, Quota
from discovery_engine.upstream.http.event_stream import CompressedEventStream, EventStream
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


async def louder(data: bytes) -> bytes:
    return data.upper()


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
    text = b"event: message\r\nid: a\ndata: some text\r\n\n: note\rdata:more\rdata\n\nretry: 5\n"
    places = [0, *sorted(places), len(text)]
    chunks = [text[start:end] for start, end in pairwise(places)]

    told = await mended(*chunks)

    assert told == (
        b"event: message\r\nid: a\ndata: SOME TEXT\r\n\n: note\rdata: MORE\rdata\n\nretry: 5\n"
    )


async def test_events_end_where_the_stream_breaks() -> None:
    assert await mended(b"data: a\n\ndata: b", b"break") == b"data: A\n\ndata: bbreak"


async def test_a_line_beyond_all_bounds_is_passed_on_as_it_comes() -> None:
    parts = [b"data: " + b"x" * LIMIT, b"y" * 10, b"\n"]

    assert await mended(*parts) == b"".join(parts)


@pytest.mark.requirement("UPS-34")
@rows("size", [10, 100_000])
async def test_after_some_events_comes_a_rest_before_the_next_ones(size: int) -> None:
    event = b"event: message\ndata: x\n\n"
    flood = event * 200
    rests = Rests()

    await mended(*(flood[i : i + size] for i in range(0, len(flood), size)), rests=rests)

    assert len(rests.at) >= 200 // 32
    assert max(after - before for before, after in pairwise([0, *rests.at])) <= 33 * len(event)


@pytest.mark.requirement("UPS-34")
async def test_what_is_large_comes_with_rests_and_so_does_what_is_compressed() -> None:
    chunks = [b": " + b"x" * 65_000 + b"\n"] * 48
    rests, packed = Rests(), Rests()

    await mended(*chunks, rests=rests)
    told = [
        part
        async for part in CompressedEventStream(
            stream(chunks), quota=packed.quota, broken=(OSError,)
        )
    ]

    assert 2 <= len(rests.at) <= 4
    assert told == chunks
    assert 4 <= len(packed.at) <= 5


@pytest.mark.requirement("UPS-34")
@rows("line", [b": ping\n\n", b"\n", b"retry: 5\n", b"nothing\r\n"])
@rows("lines", [1, 500])
async def test_after_some_lines_that_are_no_events_comes_a_rest(line: bytes, lines: int) -> None:
    rests = Rests()

    await mended(*[line * lines] * (5000 // lines), rests=rests)

    assert len(rests.at) >= 5000 // 256
    assert max(after - before for before, after in pairwise([0, *rests.at])) <= 257 * len(line)
