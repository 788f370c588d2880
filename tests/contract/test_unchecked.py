"""Arguments that cannot be checked in bounded time are sent, and the answer says so."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import InvalidArgumentsError
from discovery_server.gateway import Gateway
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told
from tests.unit.server.sdk_client import connected
from tests.unit.tools.validation.test_evaluation import chain, expression, tree

pytestmark = pytest.mark.anyio

TOO_MANY: JSONObject = {"type": "object", "properties": {"x": {"items": {"type": "integer"}}}}
PLAIN: JSONObject = {"type": "object", "properties": {"x": {"type": "integer"}}}


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    folder = Folder(tmp_path)
    told = Told.beside(
        tmp_path,
        make_definition("plain", inputSchema=PLAIN),
        make_definition("many", inputSchema=TOO_MANY),
        make_definition("chain", inputSchema=chain("allOf", links=200)),
        make_definition("tree", inputSchema=tree("add", "subtract")),
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


@pytest.mark.requirement("THR-10", "ERR-3")
async def test_what_doubles_is_checked_all_the_same(folder: Folder) -> None:
    unchecked: list[str] = []

    async with folder.open() as engine:
        await engine.refresh()
        with anyio.fail_after(60):
            await engine.execute("told", "chain", {"n": "x"}, on_unchecked=unchecked.append)
            await engine.execute("told", "tree", expression(1, levels=20))
            with pytest.raises(InvalidArgumentsError, match=r"\bn: "):
                await engine.execute("told", "chain", {"n": 5})
            with pytest.raises(InvalidArgumentsError, match="not valid under any"):
                await engine.execute("told", "tree", expression("x", levels=20))

    assert unchecked == []


@pytest.mark.thorough
@pytest.mark.requirement("THR-10")
async def test_others_go_on_while_a_costly_check_runs(folder: Folder) -> None:
    arguments = {"x": [*range(20_000), "not one more"]}
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with folder.open() as engine, anyio.create_task_group() as tasks:
        await engine.refresh()
        tasks.start_soon(turn)
        with anyio.fail_after(60):
            with pytest.raises(InvalidArgumentsError, match=r"x\.20000: "):
                await engine.execute("told", "many", arguments)
        tasks.cancel_scope.cancel()

    assert turns > 20
