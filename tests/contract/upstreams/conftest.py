"""Every test of upstreams leaves nothing running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.programs import descendants, is_running


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    before = descendants()
    yield
    assert {pid for pid in descendants() - before if is_running(pid)} == set()
