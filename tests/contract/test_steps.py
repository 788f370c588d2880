"""Several calls in one request: specs/steps.md."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import ask
from tests.catalogs import JSONObject, JSONValue, schema, tool
from tests.engines import Folder
from tests.result_agents import Agent, agent_of, fields
from tests.servers.programs import text_of
from tests.told import Told

pytestmark = pytest.mark.anyio


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    rules = [{"pattern": "fail_*", "enabled": False}, {"pattern": "image", "enabled": False}]
    async with agent_of(tmp_path, server={"steps": True}, toolRules=rules) as made:
        yield made


def step(name: str, tool: str = "echo", arguments: JSONValue = None, **more: Any) -> JSONObject:
    given = {"arguments": arguments} if arguments is not None else {}
    return {"id": name, "tool": f"results:{tool}", **given, **more}


def outcomes(result: JSONObject) -> JSONObject:
    return json.loads(result["content"][0]["text"])


FROM_A = {"$from": "a", "path": "structuredContent.items[1].name"}


@pytest.mark.requirement("STP-4", "STP-6")
async def test_a_part_of_one_result_becomes_an_argument_of_the_next(agent: Agent) -> None:
    result = await agent(
        "execute_steps",
        steps=[
            step("a", "rows", {"count": 3}),
            step("b", "echo", {"value": {"deep": [FROM_A, "as it is"]}}, select="value.deep"),
        ],
    )

    assert outcomes(result) == {
        "a": {"status": "ok", "shape": "{items: [3 of {id: number, name: string}], next: string}"},
        "b": {"status": "ok", "selected": ["row 1", "as it is"]},
    }
    assert agent.sent[1]["arguments"] == {"value": {"deep": ["row 1", "as it is"]}}
    whole = await agent(
        "read_result", handle=fields(result)["handle"], path="a.structuredContent.next"
    )
    assert whole["content"][0]["text"] == "page 2"


@pytest.mark.requirement("STP-4")
async def test_for_each_calls_once_for_each_item_in_its_order(agent: Agent) -> None:
    items = {"$from": "a", "path": "structuredContent.items"}
    result = await agent(
        "execute_steps",
        steps=[
            step("a", "json_text", {"count": 5}),
            step("wrong", "echo", {}, forEach=[]),
            step(
                "each",
                "echo",
                {"value": {"$from": "item", "path": "name"}},
                forEach={**items, "path": "content[0].json.items"},
                select="value",
            ),
            step(
                "last",
                "echo",
                {"value": {"$from": "each", "path": "results[-1].structuredContent.value"}},
                select="value",
            ),
        ],
    )

    made = outcomes(result)
    assert made["each"]["selected"] == [f"row {n}" for n in range(5)]
    assert {key: made["each"][key] for key in ("succeeded", "failed", "of")} == {
        "succeeded": 5,
        "failed": 0,
        "of": 5,
    }
    assert made["wrong"] == {"status": "ok", "succeeded": 0, "failed": 0, "of": 0}
    assert made["last"]["selected"] == "row 4"


@pytest.mark.requirement("STP-4")
async def test_after_a_failure_nothing_more_is_begun_unless_asked_for(agent: Agent) -> None:
    steps = [
        step("a", "fail"),
        step("needs", arguments={"value": {"$from": "a"}}),
        step("b", "rows", {"count": 1}),
        step("after", arguments={"value": {"$from": "b", "path": "content[0].text"}}),
    ]

    stopped = await agent("execute_steps", steps=[steps[0], steps[1]])
    gone_on = await agent("execute_steps", steps=steps, continueOnError=True)

    assert outcomes(stopped) == {
        "a": {"status": "failed", "error": "It broke"},
        "needs": {"status": "skipped", "reason": "a has no result"},
    }
    made = outcomes(gone_on)
    assert [made[name]["status"] for name in ("a", "needs", "b", "after")] == [
        "failed",
        "skipped",
        "ok",
        "ok",
    ]
    assert gone_on["isError"]
    assert fields(gone_on)["failed"] == ["a"]


REFUSED: dict[str, tuple[list[JSONValue], str]] = {
    "another id": ([step("a", arguments={"value": {"$from": "b"}})], "is no step"),
    "a later step": ([step("a", arguments={"value": {"$from": "b"}}), step("b")], "comes later"),
    "itself": ([step("a", arguments={"value": {"$from": "a"}})], "refers to itself"),
    "a dunder": ([step("a", arguments={"value": {"$from": "__class__"}})], "is no step"),
    "a list": ([step("a", arguments={"value": {"$from": ["a"]}})], "is no step"),
    "an item": ([step("a", arguments={"value": {"$from": "item"}})], "has no `forEach`"),
    "further keys": (
        [step("a"), step("b", arguments={"value": {"$from": "a", "call": "x"}})],
        'has "call"',
    ),
    "two of one id": ([step("a"), step("a")], "two steps have the id"),
    "a path as id": ([step("../a")], "needs an id"),
    "unknown keys": ([step("a", code="print(1)")], 'has "code"'),
    "too many": ([step(f"s{n}") for n in range(21)], "at most 20"),
    "too many items": ([step("a", forEach=list(range(51)))], "has 51 items"),
    "no steps": ([], "must be a list"),
    "no tool": ([{"id": "a"}], "has no tool"),
    "an unknown tool": ([step("z", "nothing")], "TOOL_NOT_FOUND"),
    "a disabled tool": ([step("z", "image")], "TOOL_DISABLED"),
    "arguments": ([step("z", "rows", {"count": "many"})], "INVALID_ARGUMENTS"),
    "a selection": ([step("z", "rows", {"count": 1}, select="items[")], "INVALID_QUERY"),
}


@pytest.mark.requirement("STP-1")
async def test_every_step_is_checked_before_anything_is_sent(agent: Agent) -> None:
    answers = {
        name: text_of(
            await agent("execute_steps", steps=[step("first"), *steps] if steps else steps)
        )
        for name, (steps, _) in REFUSED.items()
    }

    assert {name: text for name, text in answers.items() if REFUSED[name][1] not in text} == {}
    assert agent.sent == []


@pytest.mark.requirement("STP-6")
async def test_a_search_for_several_things_shows_which_result_feeds_which_argument(
    tmp_path: Path,
) -> None:
    item = {"type": "object", "properties": {"number": {"type": "integer"}}}
    listed = {"type": "object", "properties": {"issues": {"type": "array", "items": item}}}
    told = Told.beside(
        tmp_path,
        tool("list_issues", outputSchema=listed),
        tool("get_issue", inputSchema=schema(issue_number={"type": "integer"})),
    )
    folder = Folder(tmp_path)
    folder.write(told.server("github"), server={"steps": True})
    async with folder.open() as engine:
        await engine.refresh()
        queries = ["list_issues", "get_issue"]
        answer = await ask(engine, "search_tools", queries=queries, maxTokens=400)

    assert (
        "Hint: github:list_issues structuredContent.issues[*].number -> "
        "github:get_issue issue_number (number of issue, integer)"
    ) in text_of(answer).split("\n")
