"""Microsoft Agent Framework with a chat client that makes the calls that a scenario wants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from discovery_engine.agent.toolset import Toolset
from discovery_engine.engine import Engine
from discovery_engine.integrations.agent_framework import DiscoveryProvider, function_tools
from discovery_engine.rpc.client import Client
from tests.e2e.frameworks.programs.chats import Call, OnProgress, Seen, scenarios
from tests.e2e.frameworks.programs.scenarios import World, run


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.seen: list[Seen] = []

    async def _inner_get_response(
        self, *, messages: Sequence[Message], options: Mapping[str, Any], **_: Any
    ) -> ChatResponse:
        last = messages[-1].contents[-1]
        media = [one.media_type or "" for one in last.items or () if one.type == "data"]
        text = str(last.result if last.type == "function_result" else last.text)
        tools = [tool.name for tool in options.get("tools") or ()]
        self.seen.append(Seen(tools, text, media))
        content = Content.from_text("done")
        if self.calls:
            name, arguments = self.calls.pop(0)
            call_id = f"call-{len(self.seen)}"
            content = Content.from_function_call(call_id, name, arguments=arguments)
        return ChatResponse(messages=[Message("assistant", [content])])


class Chat:
    def __init__(
        self,
        source: Engine | Toolset,
        *,
        client: Client | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        async def note(_: AgentSession, *progress: Any) -> None:
            if on_progress:
                await on_progress(*progress)

        provider = DiscoveryProvider(source, client=lambda _: client, on_progress=note)
        self.model = Scripted()
        self.agent = Agent(self.model, context_providers=[provider])
        self.session = self.agent.create_session()

    @property
    def seen(self) -> list[Seen]:
        return self.model.seen

    async def say(self, text: str, *calls: Call) -> None:
        self.model.calls += calls
        await self.agent.run(text, session=self.session)


async def sessions_of_one_agent_share_nothing(world: World) -> None:
    async with world.open() as engine:
        one = Chat(engine)
        await one.say("draw a chart")
        one.session = one.agent.create_session()
        await one.say("order a product")

    assert "shop__draw_chart" in one.seen[0].tools
    assert "shop__draw_chart" not in one.seen[1].tools


async def another_process_continues_a_session(world: World) -> None:
    find = ("search_tools", {"query": "draw a chart"})
    async with world.open() as engine:
        one, other = Chat(engine), Chat(engine)
        await one.say("order a product", find)
        stored = json.dumps(one.session.to_dict())
        other.session = AgentSession.from_dict(json.loads(stored))
        await other.say("thanks")

    assert other.seen[0].tools == one.seen[-1].tools


async def an_agent_keeps_its_own_tools(world: World) -> None:
    def today() -> str:
        """What day it is."""
        return "Monday"

    async with world.open() as engine:
        model = Scripted()
        provider = DiscoveryProvider(engine)
        agent = Agent(model, tools=[today], context_providers=[provider])
        model.calls = [("today", {}), ("shop__count_stock", {})]
        await agent.run("count the stock")

    assert model.seen[0].tools[0] == "today"
    assert model.seen[1].text == "Monday"
    assert model.seen[2].text == "300 pieces"


async def the_result_as_it_came_is_there_for_the_program(world: World) -> None:
    async with world.open() as engine:
        toolset = engine.toolset(mode="select")
        toolset.use("shop__place_order")
        [*_, order] = function_tools(toolset)
        contents = await order.invoke(arguments={"product": "chair"})

    results: list[Any] = [one.raw_representation for one in contents]
    assert len(results) == 2
    assert all(one["structuredContent"]["order"] == 7 for one in results)


if __name__ == "__main__":
    run({**scenarios(Chat), **globals()})
