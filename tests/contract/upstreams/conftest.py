"""Every test of upstreams leaves nothing running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.programs import none_left_running


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    with none_left_running():
        yield
