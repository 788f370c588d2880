"""Claude through the `anthropic` SDK, with an API that answers from a script."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import anyio
import httpx2
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import MessageParam

from discovery_engine.integrations.adapter import CallProgress
from discovery_engine.integrations.anthropic import AnthropicTools, SyncAnthropicTools
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.sync import SyncClient, open_engine
from tests.e2e.frameworks.programs.scenarios import ROOT, World, run

Block = dict[str, Any]
Turn = list[Block] | Callable[[Block], list[Block]]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")


def say(text: str) -> Block:
    return {"type": "text", "text": text}


def use(name: str, number: int = 1, /, **given: Any) -> Block:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}


class Claude:
    """The Messages API, as strict as the real one with tools; its turns stand in a script."""

    def __init__(self, *turns: Turn, stop_reason: str = "") -> None:
        self.turns = list(turns)
        self.requests: list[Block] = []
        self.stop_reason = stop_reason
        self.transport = httpx2.MockTransport(self.answer)
        self.client = AsyncAnthropic(
            api_key="-", max_retries=0, http_client=httpx2.AsyncClient(transport=self.transport)
        )

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        if problem := refusal(body):
            error = {"type": "invalid_request_error", "message": problem}
            return httpx2.Response(400, json={"type": "error", "error": error})
        turn = self.turns[len(self.requests) - 1]
        content = turn(body) if callable(turn) else turn
        uses = any(block["type"] == "tool_use" for block in content)
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": self.stop_reason or ("tool_use" if uses else "end_turn"),
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=message)

    async def talk(self, tools: AnthropicTools, request: str = "Do it", **options: Any) -> str:
        """The conversation until Claude calls no more tools."""
        messages: list[MessageParam] = [{"role": "user", "content": request}]
        while True:
            message = await self.client.messages.create(
                model="claude-sonnet-5-5",
                max_tokens=100,
                messages=messages,
                tools=tools.definitions(messages),
            )
            messages.append({"role": "assistant", "content": message.content})
            results = await tools.results(message, **options)
            if not results:
                return "".join(block.text for block in message.content if block.type == "text")
            messages.append({"role": "user", "content": results})

    def results(self, request: int) -> list[Block]:
        """The results in the last message of a request."""
        found: list[Block] = self.requests[request]["messages"][-1]["content"]
        return found


def refusal(body: Block) -> str:
    """Why the API refuses a request; empty if it does not."""
    return next(chain(wrong_tools(body["tools"]), wrong_results(body)), "")


def wrong_tools(tools: list[Block]) -> Iterator[str]:
    if len({tool["name"] for tool in tools}) < len(tools):
        yield "tools: Tool names must be unique."
    if all(tool.get("defer_loading") for tool in tools):
        yield "At least one tool must have defer_loading=false."
    for tool in tools:
        schema = tool["input_schema"]
        if not NAME.match(tool["name"]):
            yield f"{tool['name']}: String should match pattern"
        if schema.get("type") != "object" or {"anyOf", "oneOf", "allOf"} & set(schema):
            yield f"{tool['name']}: input_schema is not supported"
        if not all(map(PROPERTY.match, schema["properties"])):
            yield f"{tool['name']}: Property keys should match pattern"


def wrong_results(body: Block) -> Iterator[str]:
    deferred = {tool["name"] for tool in body["tools"] if tool.get("defer_loading")}
    answered = {block["tool_use_id"] for block in blocks(body, "tool_result")}
    if missing := {block["id"] for block in blocks(body, "tool_use")} - answered:
        yield f"tool_use ids were found without tool_result blocks: {missing}"
    for result in blocks(body, "tool_result"):
        content = [block for block in result.get("content", ()) if isinstance(block, dict)]
        if any(not block.get("text", "-").strip() for block in content):
            yield "text content blocks must be non-empty"
        if len({block["type"] == "tool_reference" for block in content}) > 1:
            yield "tool_reference blocks cannot be mixed with other content"
    if unknown := set(references(body)) - deferred:
        yield f"Tool references {unknown} not found in available tools"


def blocks(body: Block, kind: str) -> Iterator[Block]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from (block for block in message["content"] if block["type"] == kind)


def references(request: Block) -> list[str]:
    return [
        block["tool_name"]
        for result in blocks(request, "tool_result")
        for block in result.get("content") or ()
        if isinstance(block, dict) and block["type"] == "tool_reference"
    ]


def names(request: Block) -> list[str]:
    return [tool["name"] for tool in request["tools"]]


FIND = use("search_tools", query="order a product")
ORDER = use("shop__place_order", 2, product="chair")


async def the_example_runs_as_it_is(world: World) -> None:
    claude = Claude([FIND], [ORDER], [say("A chair is ordered.")])
    example = runpy.run_path(str(ROOT / "examples/frameworks/with_anthropic.py"))
    world.write()

    said = await example["main"]("order a chair", claude.client)

    assert said == "A chair is ordered."
    assert "Ordered." in str(claude.results(2))


async def found_tools_are_references_with_deferred_definitions(world: World) -> None:
    async with world.open() as engine:
        claude = Claude([FIND], [ORDER], [say("done")])

        await claude.talk(AnthropicTools(engine))

    first, second, third = claude.requests
    assert "shop__place_order" not in names(first)
    assert "shop__place_order" in references(second)
    deferred = [tool for tool in second["tools"] if tool.get("defer_loading")]
    assert [tool["name"] for tool in deferred] == references(second)
    assert claude.results(2)[0]["tool_use_id"] == "toolu_2"
    assert "is_error" not in claude.results(2)[0]
    assert third["tools"] == second["tools"]


async def the_beginning_of_a_request_keeps_its_bytes(world: World) -> None:
    further = use("search_tools", 3, query="print the invoice of an order")
    async with world.open() as engine:
        claude = Claude([FIND], [ORDER], [further], [say("done")])
        tools = AnthropicTools(engine)

        await claude.talk(tools)
        again = Claude([FIND], [ORDER], [further], [say("done")])
        await again.talk(AnthropicTools(engine))

    def text(request: Block) -> str:
        return json.dumps(request["tools"])[:-1]

    for before, after in zip(claude.requests, claude.requests[1:], strict=False):
        assert text(after).startswith(text(before))
    assert again.requests == claude.requests
    shown = [tool for tool in claude.requests[0]["tools"] if not tool.get("defer_loading")]
    assert shown == [t for t in claude.requests[3]["tools"] if not t.get("defer_loading")]


async def another_process_goes_on_with_a_conversation(world: World) -> None:
    async with world.open() as engine:
        messages: list[MessageParam] = [{"role": "user", "content": "order a chair"}]
        claude = Claude([FIND], [ORDER], [say("done")])
        tools = AnthropicTools(engine)
        first = await claude.client.messages.create(
            model="m", max_tokens=9, messages=messages, tools=tools.definitions(messages)
        )
        content: Any = [block.to_dict() for block in first.content]
        messages.append({"role": "assistant", "content": content})
        messages.append({"role": "user", "content": await tools.results(first)})
        kept = json.dumps(messages)

    async with world.open() as engine:
        tools = AnthropicTools(engine)
        restored = json.loads(kept)
        second = await claude.client.messages.create(
            model="m", max_tokens=9, messages=restored, tools=tools.definitions(restored)
        )
        results = await tools.results(second)

    assert "Ordered." in str(results)


async def a_hidden_tool_is_neither_found_nor_called(world: World) -> None:
    rules = [{"pattern": "place_order", "enabled": False}]
    async with world.open(toolRules=rules) as engine:
        claude = Claude([FIND], [ORDER], [say("done")])

        await claude.talk(AnthropicTools(engine))

    assert "shop__place_order" not in references(claude.requests[1])
    (result,) = claude.results(2)
    assert result["is_error"]
    assert "TOOL_NOT_FOUND" in str(result["content"])


async def a_reference_to_a_tool_that_is_gone_stays_defined(world: World) -> None:
    async with world.open("place_order", "count_stock") as engine:
        tools = AnthropicTools(engine)

        def order_is_gone(_: Block) -> list[Block]:
            world.has("count_stock")
            return [use("search_tools", 2, query="count the stock")]

        claude = Claude([FIND], order_is_gone, [{**ORDER, "id": "toolu_3"}], [say("done")])
        talk = claude.talk

        async def refreshed(request: httpx2.Request) -> None:
            await engine.refresh()

        claude.client._client.event_hooks = {"request": [refreshed]}
        await talk(tools)

    gone = next(t for t in claude.requests[3]["tools"] if t["name"] == "shop__place_order")
    assert gone["description"] == "This tool is not available any more."
    (result,) = claude.results(3)
    assert result["is_error"]
    assert "TOOL_NOT_FOUND" in str(result["content"])


async def calls_of_one_message_are_made_side_by_side(world: World) -> None:
    both = [use("shop__meet_colleague", 1, name="Ann"), use("shop__meet_colleague", 2, name="Bob")]
    async with world.open() as engine:
        claude = Claude(both, [say("done")])

        await claude.talk(AnthropicTools(engine))

    results = claude.results(1)
    assert [result["tool_use_id"] for result in results] == ["toolu_1", "toolu_2"]
    assert [result["content"][0]["text"] for result in results] == ["met Ann", "met Bob"]


async def images_documents_and_structured_content_arrive_as_the_api_has_them(world: World) -> None:
    order = {**ORDER, "id": "toolu_3"}
    calls = [use("shop__draw_chart", 1), use("shop__print_invoice", 2, order="7"), order]
    async with world.open() as engine:
        claude = Claude(calls, [say("done")])

        await claude.talk(AnthropicTools(engine))

    chart, invoice, ordered = claude.results(1)
    kinds = [block["type"] for block in chart["content"]]
    assert kinds == ["text", "image", "text"]  # what is no image is not shown as one
    assert chart["content"][1]["source"]["media_type"] == "image/png"
    assert invoice["content"][0]["source"]["media_type"] == "application/pdf"
    text, structured = (block["text"] for block in ordered["content"])
    assert (text, json.loads(structured)) == ("Ordered.", {"order": 7, "product": "chair"})


async def a_server_that_dies_in_a_turn_is_an_error_and_comes_back(world: World) -> None:
    calls = [use("shop__burn_down", 1), use("shop__count_stock", 2)]
    async with world.open() as engine:
        again = [use("shop__count_stock", 3), use("shop__refund_payment", 4)]
        claude = Claude(calls, again, [say("done")])

        await claude.talk(AnthropicTools(engine))

    burnt = claude.results(1)[0]
    assert burnt["is_error"]
    assert "shop" in str(burnt["content"])
    counted, refused = claude.results(2)
    assert counted["content"] == [say("300 pieces")]
    assert refused["is_error"]
    assert refused["content"] == [say("The bank says no.")]


async def a_cancelled_turn_cancels_its_calls(world: World) -> None:
    scope = anyio.CancelScope()

    async def stop(_: CallProgress) -> None:
        scope.cancel()

    async with world.open() as engine:
        tools = AnthropicTools(engine)
        with scope:
            await Claude([use("shop__wait_forever")]).talk(tools, on_progress=stop)
        again = Claude([use("shop__list_cancelled")], [say("done")])
        await again.talk(tools)

    assert scope.cancelled_caught
    assert len(json.loads(again.results(1)[0]["content"][0]["text"])) == 1


async def questions_and_progress_reach_the_program(world: World) -> None:
    seen: list[CallProgress] = []

    async def note(progress: CallProgress) -> None:
        seen.append(progress)

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"yes": True}}

    client = CallbackClient(ask, capabilities={"elicitation": {"form": {}}})
    calls = [use("shop__count_stock", 1), use("shop__sign_contract", 2)]
    async with world.open() as engine:
        claude = Claude(calls, [say("done")])

        await claude.talk(AnthropicTools(engine), client=client, on_progress=note)

    assert [(one.call_id, one.progress, one.total) for one in seen] == [
        ("toolu_1", step, 3) for step in (1, 2, 3)
    ]
    assert '"yes": true' in str(claude.results(1)[1]["content"])


async def a_call_that_was_cut_off_is_not_made(world: World) -> None:
    async with world.open() as engine:
        claude = Claude([use("shop__count_stock", 1), ORDER], stop_reason="max_tokens")
        tools = AnthropicTools(engine)
        message = await claude.client.messages.create(
            model="m",
            max_tokens=9,
            messages=[{"role": "user", "content": "order"}],
            tools=tools.definitions(),
        )

        counted, ordered = await tools.results(message)

    assert "is_error" not in counted
    assert ordered["is_error"]
    assert "CALL_CUT_OFF" in str(ordered["content"])


async def the_tools_of_the_program_are_left_to_it(world: World) -> None:
    async with world.open() as engine:
        tools = AnthropicTools(engine, own=["my_tool", "read_result"])
        claude = Claude([use("my_tool", 1), use("shop__count_stock", 2)])
        message = await claude.client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "?"}],
            tools=tools.definitions(),
        )  # fmt: skip

        results = await tools.results(message)

    assert [result["tool_use_id"] for result in results] == ["toolu_2"]
    assert "read_result" not in names(claude.requests[0])


async def schemas_that_the_api_refuses_are_written_otherwise(world: World) -> None:
    search = use("search_tools", query="query the records of customers")

    def query(request: Block) -> list[Block]:
        (tool,) = (t for t in request["tools"] if t["name"] == "shop__query_records")
        (name,) = (n for n in tool["input_schema"]["properties"] if "filter" in n)
        return [use("shop__query_records", 2, **{name: "x gt 1"})]

    async with world.open() as engine:
        claude = Claude([search], query, [say("done")])

        await claude.talk(AnthropicTools(engine))

    assert json.loads(claude.results(2)[0]["content"][0]["text"]) == {"$filter": "x gt 1"}


def a_program_without_async_does_the_same(world: World) -> None:
    seen: list[CallProgress] = []
    client = SyncClient(
        lambda method, params: {"action": "accept", "content": {"yes": True}},
        capabilities={"elicitation": {"form": {}}},
    )
    calls = [ORDER, use("shop__count_stock", 3), use("shop__sign_contract", 4)]
    claude = Claude([FIND], calls, [say("done")])
    api = Anthropic(api_key="-", http_client=httpx2.Client(transport=claude.transport))
    messages: list[MessageParam] = [{"role": "user", "content": "order a chair"}]
    with open_engine(world.write(), data_dir=world.folder / "data") as engine:
        tools = SyncAnthropicTools(engine.toolset(mode="select", client=client))
        results: Any = [...]
        while results:
            message = api.messages.create(
                model="m", max_tokens=9, messages=messages, tools=tools.definitions(messages)
            )
            results = tools.results(message, on_progress=seen.append)
            messages.append({"role": "assistant", "content": message.content})
            messages.append({"role": "user", "content": results})

    assert "shop__place_order" in references(claude.requests[1])
    assert "Ordered." in str(claude.results(2)[0])
    assert [one.progress for one in seen] == [1, 2, 3]
    assert '"yes": true' in str(claude.results(2)[2])


if __name__ == "__main__":
    run(globals())
