"""The engine in an environment with version 1 of the MCP SDK, as some frameworks need it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.frameworks.conftest import Framework

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.requirement("FRM-33")
def test_beside_the_first_sdk_everything_but_remote_servers_works(
    framework: Callable[[str], Framework],
) -> None:
    framework("mcp-1").passes(
        "first_sdk.py",
        "tools_of_local_servers_are_found_and_called",
        "a_remote_server_says_what_it_needs_and_the_others_work",
        "without_the_sdk_the_remembered_catalog_is_searched_and_local_tools_called",
    )
