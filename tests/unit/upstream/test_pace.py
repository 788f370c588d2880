from __future__ import annotations

import threading

import anyio
import pytest

from discovery_engine.upstream.pace import LARGE, Pace

pytestmark = pytest.mark.anyio


def where(data: bytes) -> str:
    return threading.current_thread().name


async def test_only_what_is_large_is_parsed_in_a_thread() -> None:
    pace = Pace()

    small = await pace.aside(where, b"x" * LARGE)
    large = await pace.aside(where, b"x" * (LARGE + 1))

    assert small == threading.current_thread().name
    assert large != small


async def test_what_parsing_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await Pace().aside(int, b"x" * (LARGE + 1))


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
