"""OpenAI's Responses API through the `openai` SDK, with an API that answers from a script."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any

import anyio
import httpx2
from openai import AsyncOpenAI
from openai import OpenAI as SyncOpenAI
from openai.types.responses import ResponseInputItemParam

from discovery_engine.integrations.adapter import CallProgress
from discovery_engine.integrations.openai_responses import ResponsesTools, SyncResponsesTools
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.sync import SyncClient
from discovery_engine.sync import open_engine as open_sync_engine
from tests.e2e.frameworks.programs.scenarios import ROOT, World, run

Item = dict[str, Any]
Turn = list[Item] | Callable[[Item], list[Item]]
SCHEMA = {"type": "object"}
TOLD_SERVER = ROOT / "tests/servers/told_server.py"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def say(text: str) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def call(name: str, number: int = 1, /, **given: Any) -> Item:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": name,
        "namespace": "shop",
        "arguments": json.dumps(given),
        "status": "completed",
    }


def search(number: int = 1, /, **given: Any) -> Item:
    return {
        "type": "tool_search_call",
        "id": f"tsc_{number}",
        "call_id": f"call_{number}",
        "execution": "client",
        "arguments": given,
        "status": "completed",
    }


class OpenAI:
    """The Responses API, as strict as the real one with tools; its turns stand in a script."""

    def __init__(self, *turns: Turn, status: str = "completed") -> None:
        self.turns = list(turns)
        self.requests: list[Item] = []
        self.status = status
        self.items: dict[str, list[Item]] = {}
        """The whole conversation up to each response, as the API stores it."""
        self.transport = httpx2.MockTransport(self.answer)
        self.client = AsyncOpenAI(
            api_key="-", max_retries=0, http_client=httpx2.AsyncClient(transport=self.transport)
        )
        self.number = count(1)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        given = body["input"]
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        items = [*self.items.get(body.get("previous_response_id"), []), *given]
        if problem := refusal(body["tools"], items):
            error = {"type": "invalid_request_error", "message": problem, "code": None}
            return httpx2.Response(400, json={"error": error})
        turn = self.turns[len(self.requests) - 1]
        output = turn(body) if callable(turn) else turn
        response_id = f"resp_{next(self.number)}"
        self.items[response_id] = [*items, *output]
        response = {
            "id": response_id,
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "status": self.status,
            "output": output,
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
        }
        return httpx2.Response(200, json=response)

    async def talk(self, tools: ResponsesTools, request: str = "Do it", **options: Any) -> str:
        """The conversation until the model calls no more tools; the API stores it."""
        response = await self.client.responses.create(
            model="gpt-6-sol", input=request, tools=tools.definitions()
        )
        while outputs := await tools.outputs(response, **options):
            response = await self.client.responses.create(
                model="gpt-6-sol",
                input=outputs,
                tools=tools.definitions(),
                previous_response_id=response.id,
            )
        return response.output_text

    def outputs(self, request: int) -> list[Item]:
        """The items of a request."""
        found: list[Item] = self.requests[request]["input"]
        return found


def refusal(tools: list[Item], items: list[Item]) -> str:
    """Why the API refuses a request; empty if it does not."""
    return next(chain(wrong_items(tools, items), wrong_tools([*tools, *loaded(items)])), "")


def wrong_items(tools: list[Item], items: list[Item]) -> Iterator[str]:
    answered = {i["call_id"] for i in items if str(i.get("type")).endswith("_output")}
    called = {i["call_id"] for i in items if i.get("type") in ("function_call", "tool_search_call")}
    if missing := called - answered:
        yield f"No tool output found for {missing}"
    for item in items:
        names = [tool["name"] for tool in item.get("tools", ())]
        if len(set(names)) < len(names):
            yield f"Namespaces of one name: {names}"
    found = list(loaded(items))
    if any(not tool.get("defer_loading") for tool in found if "parameters" in tool):
        yield "The functions that a search has loaded are deferred."
    if found and not any(tool["type"] == "tool_search" for tool in tools):
        yield "Deferred tools require tools.tool_search."


def wrong_tools(tools: list[Item]) -> Iterator[str]:
    for tool in tools:
        if "name" in tool and not NAME.match(tool["name"]):
            yield f"Invalid name {tool['name']}"
        if tool["type"] == "namespace" and len(tool["tools"]) >= 10:
            yield f"Namespace {tool['name']} has too many functions"
        if tool["type"] == "function":
            schema = tool["parameters"]
            refused = {"anyOf", "oneOf", "allOf", "enum", "not"} & set(schema)
            lists = [one for one in schema["properties"].values() if one.get("type") == "array"]
            if refused or schema["type"] != "object" or any("items" not in one for one in lists):
                yield f"Invalid schema for function {tool['name']}"


def loaded(items: list[Item]) -> Iterator[Item]:
    """The namespaces and functions that searches have loaded."""
    for item in items:
        for tool in item["tools"] if item.get("type") == "tool_search_output" else ():
            yield tool
            yield from tool.get("tools", ())


FIND = search(query="order a product")
ORDER = call("shop__place_order", 2, product="chair")


async def the_example_runs_as_it_is(world: World) -> None:
    openai = OpenAI([FIND], [ORDER], [say("A chair is ordered.")])
    example = runpy.run_path(str(ROOT / "examples/frameworks/with_openai_responses.py"))
    world.write()

    said = await example["main"]("order a chair", openai.client)

    assert said == "A chair is ordered."
    assert "Ordered." in str(openai.outputs(2))


async def a_search_loads_functions_in_namespaces(world: World) -> None:
    async with world.open() as engine:
        openai = OpenAI([FIND], [ORDER], [say("done")])

        await openai.talk(ResponsesTools(engine))

    tool_search = openai.requests[0]["tools"][0]
    assert (tool_search["type"], tool_search["execution"]) == ("tool_search", "client")
    assert tool_search["parameters"]["additionalProperties"] is False
    (output,) = openai.outputs(1)
    assert (output["call_id"], output["status"]) == ("call_1", "completed")
    (shop,) = output["tools"]
    assert (shop["type"], shop["name"]) == ("namespace", "shop")
    assert shop["description"] == "orders and stock of the shop"
    assert "shop__place_order" in [function["name"] for function in shop["tools"]]
    assert not any(function["strict"] for function in shop["tools"])


async def many_functions_are_several_namespaces(world: World) -> None:
    tools = [
        {"name": f"write_report_{n}", "description": "Write a report.", "inputSchema": SCHEMA}
        for n in range(12)
    ]
    told = world.folder / "told.json"
    told.write_text(json.dumps({"instructions": "", "pages": [tools]}), "utf-8")
    office = {"command": sys.executable, "args": [str(TOLD_SERVER), str(told)]}
    async with world.open(servers={"office": office, "office_2": office}) as engine:
        openai = OpenAI([search(query="write a report", limit=24)], [say("done")])

        await openai.talk(ResponsesTools(engine.toolset(mode="select", limit=24)))

    namespaces = openai.outputs(1)[0]["tools"]
    assert [(one["name"], len(one["tools"])) for one in namespaces] == [
        ("office", 9),
        ("office_2", 3),
        ("office_2_2", 9),
        ("office_2_3", 3),
    ]


async def a_conversation_can_be_sent_whole(world: World) -> None:
    items: list[Any] = [{"role": "user", "content": "order a chair"}]
    async with world.open() as engine:
        openai = OpenAI([FIND], [ORDER], [say("done")])
        outputs: list[ResponseInputItemParam] | None = None
        while outputs != []:
            tools = ResponsesTools(engine)  # nothing is remembered in it
            response = await openai.client.responses.create(
                model="m", input=items, tools=tools.definitions(), store=False
            )
            outputs = await tools.outputs(response)
            items += [*(item.to_dict() for item in response.output), *outputs]

    assert response.output_text == "done"
    assert "Ordered." in str(items)


async def calls_of_one_response_are_made_side_by_side(world: World) -> None:
    both = [
        call("shop__meet_colleague", 1, name="Ann"),
        call("shop__meet_colleague", 2, name="Bob"),
    ]
    async with world.open() as engine:
        openai = OpenAI(both, [say("done")])

        await openai.talk(ResponsesTools(engine))

    assert [item["call_id"] for item in openai.outputs(1)] == ["call_1", "call_2"]
    assert [item["output"] for item in openai.outputs(1)] == ["met Ann", "met Bob"]


async def images_files_and_structured_content_arrive_as_the_api_has_them(world: World) -> None:
    calls = [
        call("shop__draw_chart", 1),
        call("shop__print_invoice", 2, order="7"),
        call("shop__place_order", 3, product="chair"),
    ]
    async with world.open() as engine:
        openai = OpenAI(calls, [say("done")])

        await openai.talk(ResponsesTools(engine))

    chart, invoice, order = openai.outputs(1)
    assert [part["type"] for part in chart["output"]] == ["input_text", "input_image", "input_text"]
    assert chart["output"][1]["image_url"].startswith("data:image/png;base64,iVBOR")
    assert invoice["output"][0]["type"] == "input_file"
    assert invoice["output"][0]["filename"] == "invoice.pdf"
    first, second = order["output"].splitlines()
    assert first == "Ordered."
    assert json.loads(second) == {"order": 7, "product": "chair"}


async def arguments_that_are_no_json_object_are_an_error(world: World) -> None:
    broken = {**ORDER, "arguments": '{"product": '}
    async with world.open() as engine:
        openai = OpenAI([broken, {**ORDER, "arguments": "[]", "call_id": "call_9"}], [say("done")])

        await openai.talk(ResponsesTools(engine))

    for item in openai.outputs(1):
        assert "shop__place_order" in item["output"]
        assert "JSON object" in item["output"]


async def a_server_that_dies_in_a_turn_is_an_error_and_comes_back(world: World) -> None:
    calls = [call("shop__burn_down", 1), call("shop__count_stock", 2)]
    async with world.open() as engine:
        again = [call("shop__count_stock", 3), call("shop__refund_payment", 4)]
        openai = OpenAI(calls, again, [say("done")])

        await openai.talk(ResponsesTools(engine))

    assert openai.outputs(1)[0]["output"].startswith("The call failed:")
    assert [one["output"] for one in openai.outputs(2)] == [
        *("300 pieces", "The call failed:\nThe bank says no.")
    ]


async def a_cancelled_turn_cancels_its_calls(world: World) -> None:
    scope = anyio.CancelScope()

    async def stop(_: CallProgress) -> None:
        scope.cancel()

    async with world.open() as engine:
        tools = ResponsesTools(engine)
        with scope:
            await OpenAI([call("shop__wait_forever")]).talk(tools, on_progress=stop)
        again = OpenAI([call("shop__list_cancelled")], [say("done")])
        await again.talk(tools)

    assert len(json.loads(again.outputs(1)[0]["output"])) == 1


async def questions_and_progress_reach_the_program(world: World) -> None:
    seen: list[CallProgress] = []

    async def note(progress: CallProgress) -> None:
        seen.append(progress)

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"yes": True}}

    client = CallbackClient(ask, capabilities={"elicitation": {"form": {}}})
    calls = [call("shop__count_stock", 1), call("shop__sign_contract", 2)]
    async with world.open() as engine:
        openai = OpenAI(calls, [say("done")])

        await openai.talk(ResponsesTools(engine), client=client, on_progress=note)

    assert [(one.call_id, one.tool) for one in seen] == [("call_1", "shop__count_stock")] * 3
    assert '"yes": true' in openai.outputs(1)[1]["output"]


async def the_functions_of_the_program_are_left_to_it(world: World) -> None:
    async with world.open() as engine:
        openai = OpenAI([call("my_tool", 1), call("shop__count_stock", 2)])
        tools = ResponsesTools(engine, own=["my_tool", "read_result"])
        response = await openai.client.responses.create(
            model="m", input="?", tools=tools.definitions()
        )

        outputs: list[Any] = await tools.outputs(response)

    assert [output["call_id"] for output in outputs] == ["call_2"]
    assert [tool["type"] for tool in openai.requests[0]["tools"]] == ["tool_search"]


async def a_program_of_the_model_gets_its_outputs(world: World) -> None:
    caller = {"type": "program", "caller_id": "prog_1"}
    async with world.open() as engine:
        openai = OpenAI([{**call("shop__count_stock"), "caller": caller}], [say("done")])

        await openai.talk(ResponsesTools(engine))

    assert openai.outputs(1)[0]["caller"] == caller


async def schemas_that_the_api_refuses_are_written_otherwise(world: World) -> None:
    def query(request: Item) -> list[Item]:
        functions = request["input"][0]["tools"][0]["tools"]
        (tool,) = (one for one in functions if one["name"] == "shop__query_records")
        (name,) = (n for n in tool["parameters"]["properties"] if "filter" in n)
        return [call("shop__query_records", 2, **{name: "x gt 1"})]

    async with world.open() as engine:
        openai = OpenAI([search(query="query the records of customers")], query, [say("done")])

        await openai.talk(ResponsesTools(engine))

    assert json.loads(openai.outputs(2)[0]["output"]) == {"$filter": "x gt 1"}


def a_program_without_async_does_the_same(world: World) -> None:
    seen: list[CallProgress] = []
    client = SyncClient(
        lambda method, params: {"action": "accept", "content": {"yes": True}},
        capabilities={"elicitation": {"form": {}}},
    )
    calls = [ORDER, call("shop__count_stock", 3), call("shop__sign_contract", 4)]
    openai = OpenAI([FIND], calls, [say("done")])
    api = SyncOpenAI(api_key="-", http_client=httpx2.Client(transport=openai.transport))
    with open_sync_engine(world.write(), data_dir=world.folder / "data") as engine:
        tools = SyncResponsesTools(engine)
        response = api.responses.create(model="m", input="order", tools=tools.definitions())
        while outputs := tools.outputs(response, client=client, on_progress=seen.append):
            response = api.responses.create(
                model="m", input=outputs, tools=tools.definitions(),
                previous_response_id=response.id,
            )  # fmt: skip

    assert response.output_text == "done"
    assert "Ordered." in openai.outputs(2)[0]["output"]
    assert [one.progress for one in seen] == [1, 2, 3]
    assert '"yes": true' in openai.outputs(2)[2]["output"]


if __name__ == "__main__":
    run(globals())
