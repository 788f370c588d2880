"""Arguments that cannot be checked in bounded time are sent, and the answer says so."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from discovery_server.gateway import Gateway
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told
from tests.unit.server.sdk_client import connected

pytestmark = pytest.mark.anyio

TOO_MANY: dict[str, Any] = {"type": "object", "properties": {"x": {"items": {"type": "integer"}}}}
PLAIN: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}}


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    folder = Folder(tmp_path)
    told = Told.beside(
        tmp_path,
        make_definition("plain", inputSchema=PLAIN),
        make_definition("many", inputSchema=TOO_MANY),
    )
    folder.write(told.server())
    return folder


@pytest.mark.thorough
@pytest.mark.requirement("THR-10", "MET-26")
async def test_what_was_not_checked_is_said_behind_the_result(folder: Folder) -> None:
    arguments = {"x": list(range(1_200_000))}

    async with folder.open() as engine:
        await engine.refresh()
        async with connected(Gateway(engine)) as client:
            with anyio.fail_after(60):
                call = {"server": "told", "tool": "plain", "arguments": {"x": 1}}
                checked = await client.call_tool("execute_tool", call)
                call = {"server": "told", "tool": "many", "arguments": arguments}
                result = await client.call_tool("execute_tool", call)

    assert [block.text for block in checked.content] == ["plain"]
    assert "discovery/answer" not in (checked.meta or {})
    assert [block.text for block in result.content] == [
        "many",
        "Note: the arguments were not checked: checking them takes too long",
    ]
    assert result.meta["discovery/answer"] == {"unchecked": "checking them takes too long"}
    assert not result.is_error
