"""What the contract tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import Folder
from tests.servers.programs import descendants, is_running


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A folder for engines, of which no program may be left at the end."""
    before = descendants()
    yield Folder(tmp_path)
    assert {pid for pid in descendants() - before if is_running(pid)} == set()
