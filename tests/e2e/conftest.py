"""What the tests of whole programs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.serving import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)
