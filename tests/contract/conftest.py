"""What the contract tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import Folder
from tests.servers.programs import none_left_running


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """A folder for engines, of which no program may be left at the end."""
    with none_left_running():
        yield Folder(tmp_path)
