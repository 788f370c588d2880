from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from json import JSONDecoder

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.upstream.framing import decode, encode, pausing_decoder
from discovery_engine.upstream.pace import Pace

pytestmark = pytest.mark.anyio


def where(data: bytes, decoder: JSONDecoder) -> str:
    return threading.current_thread().name


async def test_what_is_large_is_parsed_in_a_thread() -> None:
    assert await Pace().aside(where, b"{}") != threading.current_thread().name


def collects(data: bytes, decoder: JSONDecoder) -> bool:
    return gc.isenabled()


def fail(data: bytes, decoder: JSONDecoder) -> None:
    int(data)


@given(
    st.recursive(st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_a_decoder_that_pauses_reads_the_same(value: object) -> None:
    pauses: list[None] = []

    read = decode(encode(value), pausing_decoder(lambda: pauses.append(None)))

    assert read == decode(encode(value))
    assert bool(pauses) == any(isinstance(part, int | dict) for part in parts(value))


def parts(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, list | dict):
        for part in value if isinstance(value, list) else value.values():
            yield from parts(part)


async def test_the_collector_rests_while_much_is_parsed_and_works_on_afterwards() -> None:
    during = await Pace().aside(collects, b"x")

    assert (during, gc.isenabled()) == (False, True)


async def test_what_parsing_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await Pace().aside(fail, b"x")


async def test_servers_that_flood_us_wait_for_one_another() -> None:
    pace, resting = Pace(), []

    async def rest(name: str) -> None:
        await pace.rest()
        resting.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rest, "a")
        tasks.start_soon(rest, "b")
        await pace.rest()

    assert resting == ["a", "b"]
