"""LlamaIndex with its mock of a model that calls functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools.calling import acall_tool

from discovery_engine.agent.toolset import Toolset
from discovery_engine.engine import Engine
from discovery_engine.integrations.llama_index import (
    ToolProgress,
    ToolRetriever,
    tool_list,
)
from discovery_engine.rpc.client import Client
from tests.e2e.frameworks.programs.chats import Call, OnProgress, Seen, scenarios
from tests.e2e.frameworks.programs.scenarios import World, run


class Chat:
    def __init__(
        self,
        source: Engine | Toolset,
        *,
        client: Client | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.seen: list[Seen] = []
        self.calls: list[Call] = []
        self.on_progress = on_progress
        self.agent = FunctionAgent(
            tool_retriever=ToolRetriever(source, client=client),
            llm=MockFunctionCallingLLM(response_generator=self._answer),
            streaming=False,
        )
        self.memory = ChatMemoryBuffer.from_defaults()

    async def say(self, text: str, *calls: Call) -> None:
        self.calls += calls
        handler = self.agent.run(text, memory=self.memory)
        try:
            async for event in handler.stream_events():
                if isinstance(event, ToolProgress) and self.on_progress:
                    figures = event.progress, event.total, event.message
                    await self.on_progress(event.tool_name, *figures)
            await handler
        finally:
            await handler.cancel_run()

    def _answer(self, messages: Sequence[ChatMessage], **request: Any) -> ChatMessage:
        blocks = messages[-1].blocks
        self.seen.append(
            Seen(
                [tool.metadata.name for tool in request["tools"]],
                "\n".join(one.text for one in blocks if isinstance(one, TextBlock)),
                [*filter(None, map(media_type, blocks))],
            )
        )
        if not self.calls:
            return ChatMessage("done", role="assistant")
        name, arguments = self.calls.pop(0)
        return ChatMessage([ToolCallBlock(tool_name=name, tool_kwargs=arguments)], role="assistant")


def media_type(block: Any) -> str | None:
    match block:
        case ImageBlock():
            return block.image_mimetype
        case DocumentBlock():
            return block.document_mimetype
    return None


async def tools_can_be_called_without_an_agent(world: World) -> None:
    async with world.open() as engine:
        retriever = ToolRetriever(engine)
        found = await retriever.aretrieve("order a product")
        [order] = [tool for tool in found if tool.metadata.name == "shop__place_order"]
        output = await acall_tool(order, {"product": "chair"})
        wrong = await acall_tool(order, {})

    assert output.raw_output["structuredContent"] == {"order": 7, "product": "chair"}
    assert not output.is_error
    assert wrong.is_error
    assert "INVALID_ARGUMENTS" in wrong.content


async def without_an_event_loop_it_says_what_to_call(world: World) -> None:
    async with world.open() as engine:
        [tool, *_] = tool_list(engine)
        assert "call acall" in refusal(tool)
        assert "call aretrieve" in refusal(ToolRetriever(engine).retrieve)


def refusal(call: Callable[[str], Any]) -> str:
    try:
        call("order a product")
    except TypeError as error:
        return str(error)
    raise AssertionError("it is not refused")


if __name__ == "__main__":
    run({**scenarios(Chat), **globals()})
