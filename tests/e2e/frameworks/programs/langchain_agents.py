"""Agents of LangChain, with a model that answers from a script and records what was bound to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.to_thread
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool

from discovery_engine.engine import Engine
from discovery_engine.integrations.langchain import (
    DiscoveryMiddleware,
    abind_discovered_tools_to_llm,
    bind_discovered_tools_to_llm,
    langchain_tools,
)
from discovery_engine.sync import SyncClient, open_engine
from tests.e2e.frameworks.programs.scenarios import World, run

ORDER = "order a product from the warehouse"


class Scripted(GenericFakeChatModel):
    """A model that says what a script has; what was bound to it is kept."""

    bound: list[list[str]]
    definitions: list[Any]
    seen: list[list[BaseMessage]]

    @classmethod
    def saying(cls, *messages: AIMessage) -> Scripted:
        return cls(messages=iter(messages), bound=[], definitions=[], seen=[])

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        names = [one.name if isinstance(one, BaseTool) else str(one) for one in tools]
        self.bound.append(names)
        self.definitions.append(
            [one.tool_call_schema if isinstance(one, BaseTool) else one for one in tools]
        )
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.seen.append(list(messages))
        return super()._generate(messages, *args, **kwargs)


def calls(*named: tuple[str, dict[str, Any]]) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": given, "id": f"{name} {number}", "type": "tool_call"}
            for number, (name, given) in enumerate(named)
        ],
    )


def asked(text: str = ORDER) -> Any:
    return {"messages": [("user", text)]}


async def talk(
    engine: Engine, *script: AIMessage, text: str = ORDER, **options: Any
) -> tuple[Scripted, list[AnyMessage]]:
    """What the model was given, and the messages of the conversation."""
    model = Scripted.saying(*script, AIMessage("done"))
    agent: Any = create_agent(model, middleware=[DiscoveryMiddleware(engine, **options)])
    state = await agent.ainvoke(asked(text))
    return model, state["messages"]


def results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


async def what_the_model_finds_is_bound_behind_what_was_there(world: World) -> None:
    async with world.open() as engine:
        search = calls(("search_tools", {"query": "draw a chart of the revenue"}))
        draw = calls(("shop__draw_chart", {}))
        model, messages = await talk(engine, search, draw)

    before, after, _ = model.bound
    assert "shop__draw_chart" not in before
    assert after[: len(before)] == before
    assert "shop__draw_chart" in after
    found, drawn = results(messages)
    assert "shop__draw_chart" in found.text
    assert "(1 new" in found.text
    assert drawn.status == "success"


async def images_arrive_as_blocks_and_what_is_none_as_text(world: World) -> None:
    async with world.open() as engine:
        draw = calls(("shop__draw_chart", {}), ("shop__print_invoice", {"order": "7"}))
        _, messages = await talk(engine, draw)

    drawn, printed = results(messages)
    assert [block["type"] for block in drawn.content if isinstance(block, dict)] == [
        *("text", "image", "text")
    ]
    assert drawn.content_blocks[1]["type"] == "image"
    assert drawn.content_blocks[1]["mime_type"] == "image/png"
    assert printed.content_blocks[0]["type"] == "file"


async def a_tool_that_fails_is_a_result(world: World) -> None:
    async with world.open() as engine:
        refund = calls(
            ("shop__refund_payment", {}),
            ("shop__place_order", {}),
            ("shop__place_ordr", {"product": "x"}),
        )
        _, messages = await talk(engine, refund)

    failed, invalid, unknown = results(messages)
    assert [one.status for one in (failed, invalid, unknown)] == ["error"] * 3
    assert failed.text == "The bank says no."
    assert "product is missing" in invalid.text
    assert "did you mean 'shop__place_order'" in unknown.text


async def a_server_that_dies_in_a_turn_is_an_error_and_comes_back(world: World) -> None:
    async with world.open() as engine:
        burn = calls(("shop__burn_down", {}))
        order = calls(("shop__place_order", {"product": "lamp"}))
        _, messages = await talk(engine, burn, order)

    burnt, ordered = results(messages)
    assert burnt.status == "error"
    assert "TOOL_OUTCOME_UNKNOWN" in burnt.text
    assert ordered.status == "success"


async def one_agent_has_many_conversations(world: World) -> None:
    async with world.open() as engine:
        model = Scripted.saying(*[AIMessage("done") for _ in range(2)])
        agent: Any = create_agent(model, middleware=[DiscoveryMiddleware(engine)])
        await agent.ainvoke(asked())
        await agent.ainvoke(asked("draw a chart of the revenue"))

    assert model.bound[0][:3] == ["search_tools", "read_result", "shop__place_order"]
    assert "shop__place_order" not in model.bound[1]


async def the_tools_of_the_program_are_left_to_it(world: World) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with world.open() as engine:
        model = Scripted.saying(calls(("add", {"a": 1, "b": 2})), AIMessage("done"))
        agent: Any = create_agent(model, tools=[add], middleware=[DiscoveryMiddleware(engine)])
        state = await agent.ainvoke(asked())

    assert model.bound[0][:2] == ["add", "search_tools"]
    assert results(state["messages"])[0].text == "3"


def an_agent_without_async_stands_on_an_engine_without_async(world: World) -> None:
    def answer(_: str, __: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"yes": True}}

    client = SyncClient(answer, capabilities={"elicitation": {"form": {}}})
    told: list[Any] = []
    with open_engine(world.write(), data_dir=world.folder / "data") as engine:
        engine.refresh()
        script = calls(("shop__count_stock", {}), ("shop__sign_contract", {}))
        model = Scripted.saying(script, AIMessage("done"))
        middleware = DiscoveryMiddleware(engine, client=client)
        agent: Any = create_agent(model, middleware=[middleware])
        for mode, one in agent.stream(asked(), stream_mode=["custom", "values"]):
            told.append(one) if mode == "custom" else None
            state = one
        again = Scripted.saying(script, AIMessage("done"))
        other: Any = create_agent(again, middleware=[middleware])
        anyio.run(other.ainvoke, asked())
        bound = bind_discovered_tools_to_llm(again, engine, ORDER, top_k=1, tool_choice="any")
        ordered = bound.tools[0].invoke({"product": "lamp"})

    assert [one["progress"] for one in told] == [1, 2, 3]
    counted, signed = results(state["messages"])
    assert (counted.text, signed.status) == ("300 pieces", "success")
    assert again.bound[0] == model.bound[0]
    assert [one.name for one in bound.tools] == ["shop__place_order"]
    assert ordered.startswith("Ordered.")


async def discovered_tools_are_bound_to_a_model_with_all_their_arguments(world: World) -> None:
    rules = [{"pattern": "query_records", "tags": ["crm"]}]
    async with world.open(toolRules=rules) as engine:
        model = Scripted.saying()
        bound = await abind_discovered_tools_to_llm(
            model, engine, ["order a product", "filter the records of customers"], top_k=2
        )
        tagged = await abind_discovered_tools_to_llm(model, engine, "records", tags=["crm"])
        none = await abind_discovered_tools_to_llm(model, engine, ORDER, min_score=1.1)
        message: Any = {
            "type": "tool_call",
            "id": "1",
            "name": bound.tools[1].name,
            "args": {"filter": "a", "top": 2, "fields": ["config"]},
        }
        answer = await bound.tools[1].ainvoke(message)

    assert bound.llm is model
    assert [one.name for one in bound.tools] == ["shop__place_order", "shop__query_records"]
    assert set(bound.tools[1].args) == {"filter", "top", "fields"}
    assert json.loads(answer.text) == {"$filter": "a", "$top": 2, "fields": ["config"]}
    assert [one.name for one in tagged.tools] == ["shop__query_records"]
    assert none.tools == []


async def an_async_engine_says_how_it_is_used(world: World) -> None:
    async with world.open() as engine:
        agent: Any = create_agent(Scripted.saying(), middleware=[DiscoveryMiddleware(engine)])
        wrong: list[Callable[[], Any]] = [
            lambda: agent.invoke(asked()),
            lambda: langchain_tools(engine)[0].invoke({}),
        ]
        for one in wrong:
            try:
                one()
            except TypeError as error:
                assert "use `ainvoke`" in str(error)  # noqa: PT017 - pytest is not here
            else:
                raise AssertionError("it was not refused")


if __name__ == "__main__":
    run(globals())
