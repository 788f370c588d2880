"""The fixtures of the contract tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api_server import Api, served
from tests.engines import Folder
from tests.servers.programs import none_left_running


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """The API in front of the servers `good` and `other`, for all tests of a module."""
    with none_left_running():
        async with served(Folder(tmp_path_factory.mktemp("api"))) as api:
            yield api
