"""The OpenAI Agents SDK with its own scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
from typing import Any

import anyio

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, RunContextWrapper, Runner, function_tool
from agents.testing import ModelCall, ScriptedModel, assistant_message, function_call

from discovery_engine.integrations.adapter import CallProgress
from discovery_engine.integrations.openai_agents import DiscoveryAgent, function_tools
from discovery_engine.rpc.client import CallbackClient
from tests.e2e.frameworks.programs.scenarios import ROOT, World, run

DONE = [assistant_message("done")]


def use(name: str, number: int = 1, /, **given: Any) -> Any:
    return function_call(name, given, call_id=f"call_{number}")


def names(call: ModelCall) -> list[str]:
    return [tool.name for tool in call.tools]


def outputs(call: ModelCall) -> list[Any]:
    """The outputs of tools that the model is given."""
    items = call.input
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def agent(toolset: Any, *turns: Any, **fields: Any) -> tuple[DiscoveryAgent[Any], ScriptedModel]:
    model = ScriptedModel(turns)
    return DiscoveryAgent[Any]("shopper", model=model, discovery=toolset, **fields), model


ORDER = use("shop__place_order", 2, product="chair")


async def the_example_runs_as_it_is(world: World) -> None:
    model = ScriptedModel([[ORDER], [assistant_message("A chair is ordered.")]])
    example = runpy.run_path(str(ROOT / "examples/frameworks/with_openai_agents.py"))
    world.write()

    said = await example["main"]("order a product", model)

    assert said == "A chair is ordered."
    assert "Ordered." in outputs(model.calls[1])[0]


async def an_agent_has_the_tools_that_fit_and_those_that_it_finds(world: World) -> None:
    find = use("search_tools", 1, query="draw a chart")
    async with world.open() as engine:
        shopper, model = agent(
            engine.toolset(mode="select"), [find], [use("shop__draw_chart", 2)], DONE
        )

        await Runner.run(shopper, "order a product")

    first, second, third = model.calls
    assert "shop__place_order" in names(first)
    assert "shop__draw_chart" not in names(first)
    assert "shop__draw_chart" in outputs(second)[0]
    assert names(second)[: len(first.tools)] == names(first)
    assert "shop__draw_chart" in names(second)
    assert names(third) == names(second)


async def a_conversation_goes_on_with_the_tools_that_it_has_found(world: World) -> None:
    find = use("search_tools", 1, query="draw a chart")
    async with world.open() as engine:
        shopper, model = agent(engine, [find], [ORDER], DONE, DONE, DONE)
        first = await Runner.run(shopper, "order a product")
        items: Any = [*first.to_input_list(), {"role": "user", "content": "yes, go on"}]

        await Runner.run(shopper, items)
        await Runner.run(shopper, "yes, go on")

    found = names(model.calls[2])
    assert {"shop__place_order", "shop__draw_chart"} <= set(found)
    assert names(model.calls[3]) == found
    assert "shop__place_order" not in names(model.calls[4])


async def one_agent_can_be_run_twice_at_once(world: World) -> None:
    def answer(call: ModelCall) -> list[Any]:
        text = str(call.input)
        if "function_call_output" in text:
            return DONE
        name = "Ann" if "Ann" in text else "Bob"
        return [use("shop__meet_colleague", 1, name=name)]

    async with world.open() as engine:
        turns = [{"responder": answer}] * 4
        shopper, model = agent(engine.toolset(mode="select"), *turns)

        await asyncio.gather(
            Runner.run(shopper, "meet my colleague Ann"),
            Runner.run(shopper, "meet my colleague Bob"),
        )

    met = {output for call in model.calls for output in outputs(call)}
    assert met == {"met Ann", "met Bob"}


async def an_agent_keeps_its_own_tools_and_hands_over(world: World) -> None:
    @function_tool
    def today() -> str:
        """What day it is."""
        return "Monday"

    @function_tool
    def read_result() -> str:
        """Its own, by a name of ours."""
        return "mine"

    async with world.open() as engine:
        toolset = engine.toolset(mode="select")
        clerk, clerk_model = agent(toolset, [use("shop__count_stock", 3)], DONE)
        shopper, model = agent(
            toolset,
            [use("today", 1), use("read_result", 4)],
            [use("transfer_to_clerk", 2)],
            tools=[today, read_result],
            handoffs=[clerk.clone(name="clerk")],
        )

        result = await Runner.run(shopper, "count the stock")

    assert names(model.calls[0])[:2] == ["today", "read_result"]
    assert outputs(model.calls[1]) == ["Monday", "mine"]
    assert result.last_agent.name == "clerk"
    assert "shop__count_stock" in names(clerk_model.calls[0])
    assert "300 pieces" in outputs(clerk_model.calls[1])


async def images_files_and_structured_content_are_of_the_types_of_the_sdk(world: World) -> None:
    calls = [
        use("shop__draw_chart", 1),
        use("shop__print_invoice", 2, order="7"),
        use("shop__place_order", 3, product="chair"),
    ]
    async with world.open() as engine:
        toolset = engine.toolset(mode="select", limit=20)
        for name in ("shop__draw_chart", "shop__print_invoice", "shop__place_order"):
            toolset.use(name)
        model = ScriptedModel([calls, DONE])
        shopper = Agent("shopper", model=model, tools=[*function_tools(toolset)])

        await Runner.run(shopper, "do it")

    chart, invoice, order = outputs(model.calls[1])
    assert [part["type"] for part in chart] == ["input_text", "input_image", "input_text"]
    assert chart[1]["image_url"].startswith("data:image/png;base64,iVBOR")
    assert invoice[0]["type"] == "input_file"
    assert invoice[0]["filename"] == "invoice.pdf"
    assert json.loads(order.splitlines()[1]) == {"order": 7, "product": "chair"}


async def whatever_fails_is_an_output_that_the_model_reads(world: World) -> None:
    calls = [use("shop__refund_payment", 1), use("shop__burn_down", 2)]
    wrong = [use("shop__place_order", 3), use("shop__count_stock", 4)]
    async with world.open() as engine:
        toolset = engine.toolset(mode="select", limit=20)
        for name in ("refund_payment", "burn_down", "place_order", "count_stock"):
            toolset.use(f"shop__{name}")
        model = ScriptedModel([calls, wrong, DONE])
        shopper = Agent("shopper", model=model, tools=[*function_tools(toolset)])

        await Runner.run(shopper, "do it")

    refused, burnt, missing, counted = outputs(model.calls[2])
    assert refused == "The call failed:\nThe bank says no."
    assert burnt.startswith("The call failed:\n")
    assert "shop" in burnt
    assert "INVALID_ARGUMENTS" in missing
    assert "product" in missing
    assert counted == "300 pieces"


async def a_run_that_is_cancelled_cancels_its_calls(world: World) -> None:
    scope = anyio.CancelScope()

    async def stop(_: CallProgress) -> None:
        scope.cancel()

    async with world.open() as engine:
        toolset = engine.toolset(mode="select")
        shopper, _ = agent(toolset, [use("shop__wait_forever")], on_tool_progress=stop)
        with scope:
            await Runner.run(shopper, "wait for a delivery")
        again, model = agent(toolset, [use("shop__list_cancelled")], DONE)
        await Runner.run(again, "list the deliveries whose wait was cancelled")

    assert scope.cancelled_caught
    assert len(json.loads(outputs(model.calls[1])[0])) == 1


async def each_run_can_have_a_client_of_its_own(world: World) -> None:
    def asked(context: RunContextWrapper[str]) -> CallbackClient:
        async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            return {"action": "accept", "content": {"name": context.context}}

        return CallbackClient(ask, id=context.context, capabilities={"elicitation": {"form": {}}})

    sign = [use("shop__sign_contract")]
    async with world.open() as engine:
        shopper, model = agent(engine, sign, DONE, sign, DONE, discovery_client=asked)
        for user in ("Ann", "Bob"):
            await Runner.run(shopper, "sign the contract", context=user)

    assert "Ann" in outputs(model.calls[1])[0]
    assert "Bob" in outputs(model.calls[3])[0]


async def only_a_schema_that_is_strict_is_one(world: World) -> None:
    async with world.open() as engine:
        toolset = engine.toolset(mode="select", limit=20)
        for name in ("place_order", "query_records"):
            toolset.use(f"shop__{name}")
        tools = {tool.name: tool for tool in function_tools(toolset)}

    assert tools["shop__place_order"].strict_json_schema
    assert not tools["shop__query_records"].strict_json_schema
    assert not tools["search_tools"].strict_json_schema


if __name__ == "__main__":
    run(globals())
