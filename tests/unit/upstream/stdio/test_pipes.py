from __future__ import annotations

import os
from collections.abc import AsyncIterator

import anyio
import pytest

from discovery_engine.upstream.stdio.pipes import PipeWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
async def unread() -> AsyncIterator[tuple[PipeWriter, int, int]]:
    """A writer, its descriptor, and the end of the pipe that nobody reads."""
    reading, writing = os.pipe()
    yield await PipeWriter.from_descriptor(writing), writing, reading
    os.close(reading)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def test_a_closed_sink_still_writes_what_it_has_taken(
    unread: tuple[PipeWriter, int, int],
) -> None:
    writer, descriptor, reading = unread
    writer.write(b"x" * 70_000)
    await writer.aclose()

    received = 0
    with anyio.fail_after(60):
        while chunk := await anyio.to_thread.run_sync(os.read, reading, 100_000):
            received += len(chunk)
    assert received == 70_000
    assert not is_open(descriptor)


async def test_an_aborted_sink_frees_its_descriptor_although_nobody_reads(
    unread: tuple[PipeWriter, int, int],
) -> None:
    writer, descriptor, _ = unread
    writer.write(b"x" * 1_000_000)
    await writer.aclose()
    assert is_open(descriptor), "a megabyte waits to be written"

    for _ in range(2):  # the second time it is closed already
        writer.abort()
        await anyio.wait_all_tasks_blocked()

    assert not is_open(descriptor)
    writer.write(b"more\n")
    with anyio.fail_after(60):
        await writer.drain()
