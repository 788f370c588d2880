"""What every test of a fault looks at besides its own server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import pytest

from tests.servers.programs import Footprint, eventually


@pytest.fixture(autouse=True)
async def _nothing_is_left(anyio_backend: str) -> AsyncIterator[None]:
    """No process, no descriptor and no task is left of a test."""
    await anyio.to_thread.run_sync(int)  # the worker threads and the selector of the loop exist
    before = Footprint.of_this_process()
    yield
    with suppress(TimeoutError):
        await eventually(lambda: not Footprint.of_this_process().more_than(before))
    assert Footprint.of_this_process().more_than(before) == []
