from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError

from discovery_engine.upstream.bypass import Bypass, Events
from discovery_engine.upstream.framing import LINE_LIMIT
from discovery_engine.upstream.pace import Pace

pytestmark = pytest.mark.anyio


def answer(number: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [number]}}


def passed_on(bypass: Bypass, number: int) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(bypass.ticket(answer(number)))["result"]
    return result


def test_a_ticket_stands_for_a_result() -> None:
    bypass = Bypass(Pace())

    tickets = [passed_on(bypass, number) for number in (1, 2)]

    assert [bypass.result(ticket) for ticket in reversed(tickets)] == [
        {"content": [2]},
        {"content": [1]},
    ]


def test_the_message_around_a_ticket_stays() -> None:
    message = json.loads(Bypass(Pace()).ticket(answer(7)))

    assert (message["jsonrpc"], message["id"]) == ("2.0", 7)


def test_any_other_result_is_itself_and_so_is_the_ticket_of_somebody_else() -> None:
    bypass = Bypass(Pace())
    foreign = passed_on(Bypass(Pace()), 1)

    assert bypass.result(foreign) is foreign
    assert bypass.result({}) == {}


def test_who_does_not_come_for_results_makes_room_for_those_who_do() -> None:
    bypass = Bypass(Pace())
    tickets = [passed_on(bypass, number) for number in range(9)]

    with pytest.raises(MCPError, match="too many large answers"):
        bypass.result(tickets[0])
    assert bypass.result(tickets[8]) == {"content": [8]}


async def stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        if chunk == b"break":
            raise OSError


async def mended(*chunks: bytes) -> bytes:
    async def louder(data: bytes) -> bytes:
        return data.upper()

    events = Events(stream(list(chunks)), louder, limit=LINE_LIMIT, broken=(OSError,))
    return b"".join([part async for part in events])


@given(st.lists(st.integers(0, 60), max_size=5))
async def test_the_data_of_events_is_mended_however_the_stream_is_cut(places: list[int]) -> None:
    text = b"event: message\r\nid: a\ndata: some text\r\n\n: note\ndata:more\ndata\n\nretry: 5\n"
    places = [0, *sorted(places), len(text)]
    chunks = [text[start:end] for start, end in pairwise(places)]

    told = await mended(*chunks)

    assert told == (
        b"event: message\r\nid: a\ndata: SOME TEXT\n\n: note\ndata: MORE\ndata\n\nretry: 5\n"
    )


async def test_events_end_where_the_stream_breaks() -> None:
    assert await mended(b"data: a\n\ndata: b", b"break") == b"data: A\n\ndata: bbreak"


async def test_a_line_beyond_all_bounds_is_passed_on_as_it_comes() -> None:
    parts = [b"data: " + b"x" * LINE_LIMIT, b"y" * 10, b"\n"]

    assert await mended(*parts) == b"".join(parts)
