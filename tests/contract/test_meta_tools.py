"""What agents are shown, pinned whole, and what passes through, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.budget import Budget
from discovery_engine.agent.definitions import META_TOOLS, meta_tools
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.agent.render.details import details_result
from discovery_engine.agent.render.search import search_result
from discovery_engine.agent.resources import USAGE_GUIDE
from discovery_engine.agent.token_estimate import estimated_tokens
from discovery_engine.agent.tool_text import Detail
from discovery_engine.config.serve_settings import ServeMode, ServeSettings
from discovery_engine.config.settings import SearchSettings, Settings
from discovery_engine.errors import InputRequiredError
from discovery_server.gateway import Gateway
from tests.factories import make_entry, make_part
from tests.unit.server.fakes import Call, FakeEngine, make_engine, make_view, object_schema
from tests.unit.server.wire import INITIALIZE, INITIALIZED, Wire, call, served

pytestmark = pytest.mark.anyio

MODES: tuple[ServeMode, ...] = ("meta", "dynamic")
ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])


async def open_era(wire: Wire, era: str) -> None:
    """A modern client just asks; an older one shakes hands first."""
    if era == "legacy":
        await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)


async def executed(result: JSONObject, era: str) -> JSONObject:
    """What a client gets, on the wire, when an upstream answers `result`."""
    async with served(Gateway(make_engine(result=result))) as wire:
        await open_era(wire, era)
        answer = await wire.ask(call(7, "execute_tool", era=era, tool="github:list_issues"))
    return answer["result"]


@pytest.mark.requirement("MET-1", "MET-2")
def test_definitions_are_these() -> None:
    definitions = [tool.definition for tool in META_TOOLS.values()]

    assert {d["name"]: (d["inputSchema"], d["annotations"]) for d in definitions} == {
        "list_mcp_servers": ({"type": "object", "properties": {}}, READS),
        "search_tools": (
            {
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "Operation, object, product, in English; no values: "
                        "create issue, GitHub",
                    },
                    "queries": {
                        "type": "array",
                        "items": {"type": "string"},
                        "maxItems": 10,
                        "description": "Several at once",
                    },
                    "server": {"type": "string", "description": "Only this server"},
                    "limit": {"type": "integer", "minimum": 1},
                    "tags": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "With all these",
                    },
                    "kinds": {
                        "type": "array",
                        "items": {"enum": ["tool", "resource", "prompt"]},
                    },
                    "maxTokens": {**TOKENS, "description": "For more detail"},
                },
            },
            READS,
        ),
        "list_tools": (
            {
                "type": "object",
                "properties": {
                    "server": {"type": "string"},
                    "includeDisabled": {"type": "boolean"},
                    "maxTokens": TOKENS,
                },
                "required": ["server"],
            },
            READS,
        ),
        "get_tool_details": (
            {
                "type": "object",
                "properties": {"server": {"type": "string"}, "tool": TOOL, "maxTokens": TOKENS},
                "required": ["tool"],
            },
            READS,
        ),
        "execute_tool": (
            {
                "type": "object",
                "properties": {
                    "server": {"type": "string"},
                    "tool": TOOL,
                    "arguments": {"type": "object", "description": "The tool's own arguments"},
                    "select": {
                        "type": "string",
                        "description": "JMESPath of the part wanted",
                    },
                    "dryRun": {"type": "boolean"},
                },
                "required": ["tool"],
            },
            {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
        ),
    }


READS = {"readOnlyHint": True, "openWorldHint": False}
TOOL = {"type": "string", "description": "Name, or server:name"}
TOKENS = {"type": "integer", "minimum": 50}


@pytest.mark.requirement("MET-13")
@ERAS
@pytest.mark.parametrize("meta_tool", META_TOOLS)
async def test_an_argument_that_it_does_not_take_is_named_with_those_it_takes(
    meta_tool: str, era: str
) -> None:
    required = {"query": "x", "server": "github", "tool": "list_issues"}
    takes = META_TOOLS[meta_tool].definition["inputSchema"]["properties"]
    given = {name: value for name, value in required.items() if name in takes}

    async with served(Gateway(make_engine())) as wire:
        await open_era(wire, era)
        result = (await wire.ask(call(7, meta_tool, era=era, **given, owner="me")))["result"]

    [block] = result["content"]
    assert result["isError"]
    assert block["text"].startswith(f"VALIDATION_ERROR: 'owner' is not an argument of {meta_tool}")
    assert all(name in block["text"] for name in takes)


@pytest.mark.requirement("MET-37")
def test_an_agent_reads_how_to_put_a_request() -> None:
    view = make_engine().view
    query = META_TOOLS["search_tools"].properties["query"]["description"]
    texts = [query, USAGE_GUIDE, *(render_instructions(view, mode) for mode in MODES)]

    for text in map(str.lower, texts):
        assert all(word in text for word in ("operation", "object", "product", "english", "values"))
        assert "create issue, github" in text


@pytest.mark.requirement("MET-3")
def test_definitions_take_less_than_600_tokens() -> None:
    definitions = [tool.definition for tool in meta_tools(Settings()).values()]

    assert estimated_tokens(json.dumps(definitions, separators=(",", ":"))) < 600


ORDINARY = object_schema(
    ("owner", "repo"),
    owner={"type": "string", "description": "Repository owner"},
    repo={"type": "string", "description": "Repository name"},
    state={"enum": ["open", "closed", "all"], "description": "Which ones"},
    page={"type": "integer", "minimum": 1, "description": "Page number"},
)


def ordinary_part(count: int) -> Any:
    about = "List the issues of a GitHub repository, with filters for their state and labels."
    entries = [
        make_entry(f"list_repository_issues_{i}", description=about, inputSchema=ORDINARY)
        for i in range(count)
    ]
    return make_part("github", *entries)


@pytest.mark.requirement("MET-6")
def test_search_answer_of_ten_hits_takes_less_than_200_tokens() -> None:
    answer = make_view(ordinary_part(12)).search("list issues")

    usual = Budget(SearchSettings().max_tokens)
    [block] = search_result(answer, usual, Detail.SIGNATURE)["content"]

    head, *lines = block["text"].splitlines()
    assert head == "Match: sure."
    assert estimated_tokens(block["text"]) < 200
    assert len(lines) == len(answer.hits) == 10
    assert lines[0].startswith("github:list_repository_issues_0(owner: string, repo: string, ")


@pytest.mark.requirement("MET-7")
def test_details_of_an_ordinary_tool_take_less_than_100_tokens() -> None:
    usual = Budget(ServeSettings().details_tokens)
    [block] = details_result(ordinary_part(1).entries[0], usual)["content"]

    assert estimated_tokens(block["text"]) < 100


@pytest.mark.requirement("MET-9")
async def test_same_question_gives_the_same_bytes() -> None:
    answers = []
    for _ in range(2):
        async with served(Gateway(make_engine())) as wire:
            await open_era(wire, "legacy")
            answers.append(await wire.ask(call(5, "search_tools", query="issue")))

    assert json.dumps(answers[0]) == json.dumps(answers[1])


RICH: JSONObject = {
    "content": [
        {"type": "text", "text": "é\u2028x", "annotations": {"audience": ["user"], "vendor": 1}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///x", "name": "x", "size": 3, "vendor": None},
        {"type": "resource", "resource": {"uri": "x:/y", "text": "t", "vendor": [None]}},
    ],
    "structuredContent": {"rows": [1, None, {"deep": []}]},
    "isError": False,
    "_meta": {"vendor/key": {"a": None}},
    "vendorField": "kept",
}


@pytest.mark.requirement("MET-19")
async def test_result_reaches_a_client_of_the_handshake_era_as_it_came() -> None:
    assert await executed(RICH, "legacy") == RICH


@pytest.mark.requirement("MET-19")
async def test_result_reaches_a_modern_client_with_what_its_era_asks_for() -> None:
    result = await executed(RICH, "modern")

    assert result.pop("resultType") == "complete"
    assert result["_meta"].pop("io.modelcontextprotocol/serverInfo")["name"] == "discovery"
    assert result == RICH


@pytest.mark.requirement("MET-19")
async def test_result_type_of_a_modern_upstream_stays_in_its_era() -> None:
    result = {"content": [], "resultType": "complete"}

    assert await executed(result, "legacy") == {"content": []}
    assert (await executed(result, "modern"))["resultType"] == "complete"


@pytest.mark.requirement("MET-19")
@ERAS
async def test_error_of_a_tool_stays_its_own(era: str) -> None:
    failure = {"content": [{"type": "text", "text": "No"}], "isError": True}

    result = await executed(failure, era)

    assert {key: result[key] for key in failure} == failure
    assert "discovery/error" not in result.get("_meta", {})


@pytest.mark.requirement("MET-20")
@ERAS
async def test_progress_of_the_upstream_reaches_a_caller_that_asked(era: str) -> None:
    async def work(call: Call) -> JSONObject:
        assert call.on_progress is not None
        await call.on_progress(1, 2, "half way")
        return {"content": []}

    message = call(7, "execute_tool", era=era, tool="list_issues")
    message["params"].setdefault("_meta", {})["progressToken"] = "p1"
    async with served(Gateway(make_engine(execution=work))) as wire:
        await open_era(wire, era)
        told, answer = await wire.ask(message), await wire.receive()

    assert told["method"] == "notifications/progress"
    assert told["params"] == {
        "progressToken": "p1",
        "progress": 1,
        "total": 2,
        "message": "half way",
    }
    assert answer["id"] == 7


@pytest.mark.requirement("MET-20")
@ERAS
async def test_progress_told_beside_the_call_goes_out_in_order_before_the_result(era: str) -> None:
    async with anyio.create_task_group() as connection:

        async def work(call: Call) -> JSONObject:
            assert call.on_progress is not None
            for step in (1, 2, 3):
                connection.start_soon(call.on_progress, step, 3, None)
            await anyio.lowlevel.checkpoint()
            return {"content": []}

        message = call(7, "execute_tool", era=era, tool="list_issues")
        message["params"].setdefault("_meta", {})["progressToken"] = "p1"
        async with served(Gateway(make_engine(execution=work))) as wire:
            await open_era(wire, era)
            heard = [await wire.ask(message), *[await wire.receive() for _ in range(3)]]

    assert [told["params"]["progress"] for told in heard[:3]] == [1, 2, 3]
    assert heard[3]["id"] == 7


@pytest.mark.requirement("MET-20")
@ERAS
async def test_progress_is_not_asked_for_otherwise(era: str) -> None:
    engine = make_engine()
    async with served(Gateway(engine)) as wire:
        await open_era(wire, era)
        await wire.ask(call(7, "execute_tool", era=era, tool="list_issues"))

    assert engine.calls[0].on_progress is None


@pytest.mark.requirement("MET-21")
@ERAS
async def test_cancelled_request_cancels_the_call_upstream(era: str) -> None:
    entered, left = anyio.Event(), anyio.Event()

    async def hang(_: Call) -> JSONObject:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()
        return {}

    engine = make_engine(execution=hang)
    async with served(Gateway(engine)) as wire:
        await open_era(wire, era)
        await wire.send(call(7, "execute_tool", era=era, tool="list_issues"))
        await entered.wait()
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 7}}
        await wire.send({"jsonrpc": "2.0", **cancel})
        await left.wait()
        listed = await wire.ask(call(8, "list_mcp_servers", era=era))

    assert listed["id"] == 8


@pytest.mark.requirement("MET-17")
@ERAS
async def test_call_without_a_handshake_or_an_envelope_is_refused(era: str) -> None:
    engine: FakeEngine = make_engine()
    async with served(Gateway(engine)) as wire:
        if era == "modern":
            await wire.ask(call(1, "list_mcp_servers", era=era))
        refused = await wire.ask(call(2, "execute_tool", tool="list_issues"))

    assert refused["error"]["code"] == -32602
    assert engine.calls == []


@pytest.mark.requirement("MET-25")
@ERAS
async def test_tool_that_wants_input_meanwhile_is_an_error(era: str) -> None:
    async def unanswered(_: Call) -> JSONObject:
        raise InputRequiredError("github", "its roots", "nobody answered", hint="give them")

    async with served(Gateway(make_engine(execution=unanswered))) as wire:
        await open_era(wire, era)
        answer = await wire.ask(call(7, "execute_tool", era=era, tool="github:list_issues"))
    result = answer["result"]

    assert result["isError"]
    assert result["_meta"]["discovery/error"]["code"] == "TOOL_NEEDS_INPUT"
