"""How many calls of steps are under way at once, and what ends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from discovery_engine import Engine
from discovery_engine.agent.dispatch import call
from discovery_engine.agent.meta_arguments import Caller
from discovery_engine.tools.meta_tools import ALL_META_TOOLS
from tests.catalogs import JSONObject, JSONValue
from tests.result_agents import Agent, agent_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    rules = [{"pattern": "fail_*", "enabled": False}, {"pattern": "image", "enabled": False}]
    async with agent_of(tmp_path, server={"steps": True}, toolRules=rules) as made:
        yield made


def step(name: str, tool: str = "echo", arguments: JSONValue = None, **more: Any) -> JSONObject:
    given = {"arguments": arguments} if arguments is not None else {}
    return {"id": name, "tool": f"results:{tool}", **given, **more}


class Waiting:
    """An engine whose calls wait until as many are under way as the test expects."""

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._most = most
        self.running = 0
        self.cancelled = 0
        self.all_run = anyio.Event()
        self.go_on = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def execute(self, *_: Any, **__: Any) -> JSONObject:
        self.running += 1
        if self.running == self._most:
            self.all_run.set()
        try:
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        return {"content": [{"type": "text", "text": "done"}]}


SCRIPT = "import asyncio\nawait asyncio.gather(*[call('results:echo') for n in range(20)])"
TWENTY_CALLS: dict[str, JSONObject] = {
    "execute_steps": {"steps": [step(f"s{n}") for n in range(20)]},
    "execute_script": {"code": SCRIPT},
}
several = pytest.mark.parametrize("meta_tool", TWENTY_CALLS)


async def run_calls(waiting: Waiting, meta_tool: str) -> JSONObject:
    arguments = TWENTY_CALLS[meta_tool]
    return await call(cast("Engine", waiting), ALL_META_TOOLS[meta_tool], arguments, Caller())


@several
@pytest.mark.requirement("STP-4", "STP-7")
async def test_ten_independent_calls_are_under_way_at_once_and_no_more(
    agent: Agent, meta_tool: str
) -> None:
    waiting = Waiting(agent.engine, 10)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_calls, waiting, meta_tool)
            await waiting.all_run.wait()
            await anyio.wait_all_tasks_blocked()

            assert waiting.running == 10
            waiting.go_on.set()
    assert waiting.running == 20


@several
@pytest.mark.requirement("STP-4", "STP-7")
async def test_cancelling_the_request_cancels_all_calls(agent: Agent, meta_tool: str) -> None:
    waiting = Waiting(agent.engine, 10)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_calls, waiting, meta_tool)
            await waiting.all_run.wait()
            tasks.cancel_scope.cancel()

    assert (waiting.running, waiting.cancelled) == (10, 10)
