"""The registry on each back-end, for the tests of what is kept between runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine.store.registry import Registry
from tests.store.registry_stores import BACK_ENDS, SHARED, back_ends


@pytest.fixture(params=back_ends(*BACK_ENDS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    """A registry of each back-end."""
    with closing(BACK_ENDS[request.param](request, tmp_path / "registry.db")) as opened:
        yield opened


@pytest.fixture(params=back_ends(*sorted(BACK_ENDS.keys() - SHARED)))
def private_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    """A registry of each back-end that no other user writes to."""
    with closing(BACK_ENDS[request.param](request, tmp_path / "registry.db")) as opened:
        yield opened


@pytest.fixture(params=back_ends(*SHARED))
def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    """A registry of each back-end that several gateways write to."""
    with closing(BACK_ENDS[request.param](request, tmp_path / "registry.db")) as opened:
        yield opened
