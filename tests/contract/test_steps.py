"""Several calls in one request: specs/steps.md."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.caller import Caller
from discovery_engine.agent.definitions import ALL_META_TOOLS, meta_tools
from discovery_engine.agent.dispatch import call
from discovery_engine.agent.token_estimate import estimated_tokens
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.engine import Engine
from tests.factories import make_settings
from tests.result_agents import Agent, agent_of, fields
from tests.servers.programs import text_of

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


@pytest.mark.requirement("STP-6")
async def test_a_result_of_which_nothing_is_selected_is_kept_and_its_shape_shown(
    agent: Agent,
) -> None:
    steps = [
        step("a", "rows", {"count": 3}, select="itmes"),
        step("b", "rows", {"count": {"$from": "item"}}, forEach=[1, 2], select="items[1].name"),
    ]

    result = await agent("execute_steps", steps=steps)

    shape = "{items: [3 of {id: number, name: string}], next: string}"
    made = outcomes(result)
    assert made["a"] == {"status": "ok", "note": "nothing is at itmes", "shape": shape}
    assert made["b"]["selected"] == [None, "row 1"]
    assert made["b"]["note"] == "nothing is at items[1].name"
    whole = await agent(
        "read_result", handle=fields(result)["handle"], path="a.structuredContent.next"
    )
    assert text_of(whole) == "page 2"


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


REACHING: list[tuple[str, list[JSONValue], str]] = [
    ("another id", [step("a", arguments={"value": {"$from": "b"}})], "is no step"),
    (
        "a later step",
        [step("a", arguments={"value": {"$from": "b"}}), step("b")],
        "comes later",
    ),
    (
        "a cycle",
        [
            step("a", arguments={"value": {"$from": "b"}}),
            step("b", arguments={"value": {"$from": "a"}}),
        ],
        "comes later",
    ),
    ("itself", [step("a", arguments={"value": {"$from": "a"}})], "refers to itself"),
    ("a dunder", [step("a", arguments={"value": {"$from": "__class__"}})], "is no step"),
    ("a prototype", [step("a", arguments={"value": {"$from": "constructor"}})], "is no step"),
    ("no name", [step("a", arguments={"value": {"$from": {"$from": "a"}}})], "is no step"),
    ("a list", [step("a", arguments={"value": {"$from": ["a"]}})], "is no step"),
    ("an item", [step("a", arguments={"value": {"$from": "item"}})], "has no `forEach`"),
    (
        "an item of its own list",
        [step("a", arguments={}, forEach={"$from": "item"})],
        "has no `forEach`",
    ),
    (
        "further keys",
        [step("a"), step("b", arguments={"value": {"$from": "a", "call": "x"}})],
        'has "call"',
    ),
    ("two of one id", [step("a"), step("a")], "two steps have the id"),
    ("the name item", [step("item")], "needs an id"),
    ("a path as id", [step("../a")], "needs an id"),
    ("unknown keys", [step("a", code="print(1)")], 'has "code"'),
    ("too many", [step(f"s{n}") for n in range(21)], "at most 20"),
    ("no steps", [], "must be a list"),
    ("no object", ["a"], "must be an object"),
    ("no tool", [{"id": "a"}], "has no tool"),
    ("arguments as text", [step("a", arguments="x")], "must be an object"),
    ("too many items", [step("a", forEach=list(range(51)))], "has 51 items"),
    ("items that are none", [step("a", forEach="abc")], "must be a list or a reference"),
]


@pytest.mark.thorough
@pytest.mark.requirement("STP-1", "STP-2")
@pytest.mark.parametrize(
    ("steps", "why"), [pytest.param(s, why, id=name) for name, s, why in REACHING]
)
async def test_steps_that_reach_outside_are_refused(
    agent: Agent, steps: list[JSONValue], why: str
) -> None:
    answer = await agent("execute_steps", steps=[step("first"), *steps] if steps else steps)

    assert text_of(answer).startswith("INVALID_STEPS: ")
    assert why in text_of(answer)
    assert agent.sent == []


@pytest.mark.thorough
@pytest.mark.requirement("STP-2")
@pytest.mark.parametrize(
    ("last", "code"),
    [
        (step("z", "nothing"), "TOOL_NOT_FOUND"),
        (step("z", "image"), "TOOL_DISABLED"),
        (step("z", "rows", {"count": "many"}), "INVALID_ARGUMENTS"),
        (step("z", "rows", {"count": 1}, select="items["), "INVALID_QUERY"),
        (step("z", "echo", {"value": {"$from": "a", "path": "["}}), "INVALID_QUERY"),
    ],
)
async def test_a_step_that_could_not_be_called_stops_all_before_anything_is_sent(
    agent: Agent, last: JSONObject, code: str
) -> None:
    answer = await agent("execute_steps", steps=[step("a"), last])

    assert text_of(answer).startswith(f"{code}: ")
    assert "z" in text_of(answer)
    assert agent.sent == []


@pytest.mark.thorough
@pytest.mark.requirement("STP-4")
@pytest.mark.parametrize(
    "path", ["__class__", "structuredContent.__proto__", "constructor.prototype", "[0]", "`null`"]
)
async def test_a_path_reads_data_only_and_a_miss_fails_the_step(agent: Agent, path: str) -> None:
    answer = await agent(
        "execute_steps",
        steps=[step("a"), step("b", arguments={"value": {"$from": "a", "path": path}})],
    )

    made = outcomes(answer)
    assert answer["isError"]
    assert made["b"]["status"] == "failed"
    assert made["b"]["error"].startswith(f"INVALID_STEPS: nothing is at {path} in 'a' (it is {{")
    assert len(agent.sent) == 1


@pytest.mark.requirement("STP-4")
async def test_arguments_that_are_filled_in_are_checked_as_any_others(agent: Agent) -> None:
    answer = await agent(
        "execute_steps",
        steps=[step("a", "rows", {"count": 2}), step("b", "rows", {"count": FROM_A})],
    )

    assert outcomes(answer)["b"]["error"].startswith("INVALID_ARGUMENTS: ")
    assert [sent["arguments"] for sent in agent.sent] == [{"count": 2}]


@pytest.mark.requirement("STP-5")
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


@pytest.mark.requirement("STP-4")
async def test_each_step_counts_against_the_limits_of_its_server(tmp_path: Path) -> None:
    async with agent_of(tmp_path, limits={"callsPerMinute": 1, "burst": 3}) as agent:
        each = step("a", "echo", {"value": {"$from": "item"}}, forEach=list(range(20)))
        answer = await agent("execute_steps", steps=[each], continueOnError=True)

        assert len(agent.sent) == 3
    made = outcomes(answer)["a"]
    assert made["error"].startswith("RATE_LIMITED: ")
    assert (made["succeeded"], made["failed"], made["of"]) == (3, 17, 20)


@pytest.mark.requirement("STP-6")
async def test_a_long_answer_is_cut_as_a_result_is(tmp_path: Path) -> None:
    async with agent_of(tmp_path, server={"maxResultTokens": 1000}) as agent:
        answer = await agent(
            "execute_steps", steps=[step("a", "rows", {"count": 3000}, select="items")]
        )

    assert estimated_tokens(answer["content"][0]["text"]) <= 1000
    assert outcomes(answer)["a"]["selected"][0] == {"id": 0, "name": "row 0"}
    assert "a.selected" in answer["content"][-1]["text"]


class Waiting:
    """An engine whose calls wait until as many are under way as the test expects."""

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._most = most
        self.running = 0
        self.cancelled = 0
        self.all_run = anyio.Event()
        self.go_on = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def execute(self, *_: Any, **__: Any) -> JSONObject:
        self.running += 1
        if self.running == self._most:
            self.all_run.set()
        try:
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        return {"content": [{"type": "text", "text": "done"}]}


async def run_steps(waiting: Waiting, count: int) -> JSONObject:
    steps = [step(f"s{n}") for n in range(count)]
    return await call(
        cast("Engine", waiting), ALL_META_TOOLS["execute_steps"], {"steps": steps}, Caller()
    )


@pytest.mark.requirement("STP-3")
async def test_ten_independent_calls_are_under_way_at_once_and_no_more(agent: Agent) -> None:
    waiting = Waiting(agent.engine, 10)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_steps, waiting, 20)
            await waiting.all_run.wait()
            await anyio.wait_all_tasks_blocked()

            assert waiting.running == 10
            waiting.go_on.set()
    assert waiting.running == 20


@pytest.mark.requirement("STP-7")
async def test_cancelling_the_request_cancels_all_calls(agent: Agent) -> None:
    waiting = Waiting(agent.engine, 10)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_steps, waiting, 20)
            await waiting.all_run.wait()
            tasks.cancel_scope.cancel()

    assert (waiting.running, waiting.cancelled) == (10, 10)


@pytest.mark.requirement("STP-6")
def test_execute_steps_is_there_for_those_who_ask_for_it() -> None:
    assert "execute_steps" not in meta_tools(make_settings())
    everything = ServeSettings(steps=True, registry_tool="read")
    assert "execute_steps" in meta_tools(make_settings(server=ServeSettings(steps=True)))
    assert list(meta_tools(make_settings(server=everything))) == list(ALL_META_TOOLS)
