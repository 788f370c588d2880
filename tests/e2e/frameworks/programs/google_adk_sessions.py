"""Google ADK with a model that makes the calls that a scenario wants, and `InMemoryRunner`."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from google.adk.agents import Agent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import Field

from discovery_engine.agent.toolset import Toolset
from discovery_engine.engine import Engine
from discovery_engine.integrations.adapter import CallProgress
from discovery_engine.integrations.google_adk import DiscoveryToolset
from discovery_engine.rpc.client import Client
from tests.e2e.frameworks.programs.chats import Call, OnProgress, Seen, scenarios
from tests.e2e.frameworks.programs.scenarios import World, run

NUMBERS = itertools.count(1)


class Scripted(BaseLlm):
    calls: list[Call] = Field(default_factory=list)
    seen: list[Seen] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append(seen(llm_request))
        part = types.Part(text="done")
        if self.calls:
            name, arguments = self.calls.pop(0)
            part = types.Part.from_function_call(name=name, args=arguments)
        yield LlmResponse(content=types.ModelContent(part))


def seen(request: LlmRequest) -> Seen:
    declared = [one for tool in request.config.tools or [] for one in declarations(tool)]
    part = (request.contents[-1].parts or [types.Part()])[-1]
    answered = part.function_response
    blobs = [one.inline_data for one in (answered and answered.parts) or []]
    return Seen(
        [one.name or "" for one in declared],
        text_of(answered.response) if answered else part.text or "",
        [blob.mime_type or "" for blob in blobs if blob],
    )


def declarations(tool: Any) -> list[types.FunctionDeclaration]:
    assert isinstance(tool, types.Tool)
    return tool.function_declarations or []


def text_of(response: dict[str, Any] | None) -> str:
    """What a model reads of a response."""
    [said] = (response or {"output": ""}).values()
    return said if isinstance(said, str) else json.dumps(said)


class Chat:
    def __init__(
        self,
        source: Engine | Toolset,
        *,
        client: Client | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        async def note(seen: CallProgress) -> None:
            assert seen.call_id
            if on_progress:
                await on_progress(seen.tool, seen.progress, seen.total, seen.message)

        self.toolset = DiscoveryToolset(source, client=client, on_progress=note)
        self.model = Scripted(model="scripted")
        agent = Agent(name="helper", model=self.model, tools=[self.toolset])
        self.runner = InMemoryRunner(agent, app_name="shop")
        self.runner.auto_create_session = True
        self.session = f"session-{next(NUMBERS)}"

    @property
    def seen(self) -> list[Seen]:
        return self.model.seen

    async def say(self, text: str, *calls: Call) -> None:
        self.model.calls += calls
        message = types.UserContent(text)
        events = self.runner.run_async(user_id="user", session_id=self.session, new_message=message)
        async with aclosing(events):
            async for event in events:
                assert not event.error_code, event.error_message


async def sessions_of_one_agent_share_nothing(world: World) -> None:
    async with world.open() as engine:
        one = Chat(engine)
        await one.say("draw a chart")
        one.session = "another"
        await one.say("order a product")

    assert "shop__draw_chart" in one.seen[0].tools
    assert "shop__draw_chart" not in one.seen[1].tools


async def another_process_continues_a_session(world: World) -> None:
    find = ("search_tools", {"query": "draw a chart"})
    async with world.open() as engine:
        one, other = Chat(engine), Chat(engine)
        await one.say("order a product", find, ("shop__draw_chart", {}))
        other.runner.session_service = one.runner.session_service
        other.session = one.session
        await other.say("thanks")

    assert other.seen[0].tools == one.seen[-1].tools


async def a_prefix_and_a_filter_hold(world: World) -> None:
    async with world.open() as engine:
        one = Chat(engine)
        one.toolset.tool_name_prefix = "my"
        one.toolset.tool_filter = ["search_tools", "shop__draw_chart", "shop__place_order"]
        await one.say("order a product", ("my_shop__place_order", {"product": "chair"}))
        await one.say("draw a chart")

    assert one.seen[0].tools == ["my_search_tools", "my_shop__place_order"]
    assert "chair" in one.seen[1].text
    assert one.seen[2].tools[:2] == one.seen[0].tools
    assert "my_shop__draw_chart" in one.seen[2].tools


async def tools_can_be_listed_without_a_session(world: World) -> None:
    async with world.open() as engine:
        tools = await DiscoveryToolset(engine).get_tools_with_prefix()

    assert tools[0].name == "search_tools"


if __name__ == "__main__":
    run({**scenarios(Chat), **globals()})
