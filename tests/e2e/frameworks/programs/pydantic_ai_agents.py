"""Agents of PydanticAI, with a function in place of a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    Tool,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from discovery_engine import Toolset
from discovery_engine.engine import Engine
from discovery_engine.integrations.pydantic_ai import (
    DiscoveryToolset,
    ToolProgressEvent,
    discovery_search_strategy,
)
from discovery_engine.rpc.client import CallbackClient
from tests.e2e.frameworks.programs.scenarios import World, run

ORDER = "order a product from the warehouse"


class Script:
    """A model that calls what a script has; the names of the tools that it was given are kept."""

    def __init__(self, *steps: Sequence[ToolCallPart]) -> None:
        self.steps = list(steps)
        self.given: list[list[str]] = []
        self.definitions: list[Any] = []
        self.results: list[ToolReturnPart] = []

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.given.append([tool.name for tool in info.function_tools])
        self.definitions.append([tool.parameters_json_schema for tool in info.function_tools])
        last = messages[-1]
        if isinstance(last, ModelRequest):
            self.results += [part for part in last.parts if isinstance(part, ToolReturnPart)]
        return ModelResponse(self.steps.pop(0) if self.steps else [TextPart("done")])

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.answer, stream_function=self.stream)

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for number, part in enumerate(self.answer(messages, info).parts):
            if isinstance(part, ToolCallPart):
                given = json.dumps(part.args)
                yield {number: DeltaToolCall(part.tool_name, given, tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    def result(self, name: str) -> ToolReturnPart:
        return next(part for part in self.results if part.tool_name == name)


def search(*queries: str) -> list[ToolCallPart]:
    return [ToolCallPart("search_tools", {"queries": list(queries)})]


def call(name: str, /, **given: Any) -> ToolCallPart:
    return ToolCallPart(name, given)


def agent_of(source: Engine | Toolset, script: Script, **options: Any) -> Agent[None, str]:
    strategy = ToolSearch[None](strategy=discovery_search_strategy(source))
    toolset = DiscoveryToolset[None](source, **options)
    return Agent(script.model, toolsets=[toolset], capabilities=[strategy])


async def the_search_of_the_engine_reveals_deferred_tools(world: World) -> None:
    async with world.open() as engine:
        script = Script(search(ORDER), [call("shop__place_order", product="lamp")])
        result = await agent_of(engine, script).run(ORDER)

    assert result.output == "done"
    assert script.given[0] == ["read_result", "search_tools"]
    assert "shop__place_order" in script.given[1]
    assert set(script.given[0]) < set(script.given[1])
    placed = script.result("shop__place_order")
    assert placed.outcome == "success"
    assert placed.metadata["structuredContent"] == {"order": 7, "product": "lamp"}


async def renamed_tools_and_those_of_others_are_found(world: World) -> None:
    def paint_wall(colour: str) -> str:
        """Paint a wall in a colour."""
        return colour

    async with world.open() as engine:
        script = Script(search(ORDER, "paint a wall"), [call("eu_shop__place_order", product="x")])
        others = FunctionToolset[None]([Tool(paint_wall, defer_loading=True)])
        ours = DiscoveryToolset[None](engine).prefixed("eu")
        toolsets: list[AbstractToolset[None]] = [ours, others]
        strategy = ToolSearch[None](strategy=discovery_search_strategy(engine))
        await Agent(script.model, toolsets=toolsets, capabilities=[strategy]).run(ORDER)

    assert {"eu_shop__place_order", "paint_wall"} <= set(script.given[1])
    assert script.result("eu_shop__place_order").outcome == "success"


async def without_deferral_the_fitting_tools_are_bound_at_each_step(world: World) -> None:
    async with world.open() as engine:
        find = [ToolCallPart("search_tools", {"query": "draw a chart of the revenue"})]
        script = Script(find, [call("shop__draw_chart")])
        toolset = DiscoveryToolset[None](engine, defer_loading=False)
        agent: Agent[None, str] = Agent(script.model, toolsets=[toolset])
        first = await agent.run(ORDER)
        await agent.run("Thanks", message_history=first.all_messages())

    before, after, *_, later = script.given
    assert before[:3] == ["search_tools", "read_result", "shop__place_order"]
    assert "shop__draw_chart" not in before
    assert after[: len(before)] == before
    assert "shop__draw_chart" in after
    assert set(after) <= set(later)
    assert "(1 new" in str(script.result("search_tools").content)


async def content_arrives_in_its_own_types(world: World) -> None:
    async with world.open() as engine:
        script = Script(
            search("draw a chart of the revenue", "print an invoice"),
            [call("shop__draw_chart"), call("shop__print_invoice", order="7")],
        )
        await agent_of(engine, script).run("x")

    text, image, broken = script.result("shop__draw_chart").content  # type: ignore[misc]
    assert text == "The revenue:"
    assert isinstance(image, BinaryContent)
    assert image.media_type == "image/png"
    assert broken == "[image image/png, 9 bytes]"
    printed = script.result("shop__print_invoice").content
    assert isinstance(printed, BinaryContent)
    assert printed.media_type == "application/pdf"


async def a_failure_is_a_result_and_uses_up_no_retries(world: World) -> None:
    async with world.open() as engine:
        wrong = call("shop__place_order")
        script = Script(
            search(ORDER, "refund a payment"),
            *([[call("shop__refund_payment"), wrong]] * 3),
        )
        result = await agent_of(engine, script).run("x")

    assert result.output == "done"
    failed = [part for part in script.results if part.tool_name != "search_tools"]
    assert [part.outcome for part in failed] == ["failed"] * 6
    assert failed[0].content == "The bank says no."
    assert "product is missing" in str(failed[1].content)


async def progress_is_in_the_stream_of_events(world: World) -> None:
    async with world.open() as engine:
        script = Script(search("count the stock"), [call("shop__count_stock")])
        agent = agent_of(engine, script)
        async with agent.run_stream_events("x") as stream:
            told = [event async for event in stream if isinstance(event, ToolProgressEvent)]

    assert [(one.progress, one.total, one.message) for one in told] == [
        *((1, 3, "hall 1"), (2, 3, "hall 2"), (3, 3, "hall 3"))
    ]
    assert {one.tool_name for one in told} == {"shop__count_stock"}


async def questions_go_to_the_client_of_the_call(world: World) -> None:
    async def answer(_: str, __: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"yes": True}}

    client = CallbackClient(answer, capabilities={"elicitation": {"form": {}}})
    async with world.open() as engine:
        script = Script(search("sign a contract"), [call("shop__sign_contract")])
        await agent_of(engine, script, client=lambda ctx: client).run("x")

    assert '"yes": true' in str(script.result("shop__sign_contract").content)


async def a_cancelled_run_cancels_its_calls(world: World) -> None:
    async with world.open() as engine:
        script = Script(search("wait for a delivery"), [call("shop__wait_forever")])
        begun = asyncio.Event()

        async def talk() -> None:
            async with agent_of(engine, script).run_stream_events("x") as stream:
                async for event in stream:
                    if isinstance(event, ToolProgressEvent):
                        begun.set()

        task = asyncio.create_task(talk())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        while len(json.loads(await answered(engine, "list_cancelled"))) != 1:  # noqa: ASYNC110
            await anyio.sleep(0.01)

    assert task.cancelled()


async def answered(engine: Engine, tool: str) -> str:
    result = await engine.execute("shop", tool, {})
    return str(result["content"][0]["text"])


if __name__ == "__main__":
    run(globals())
