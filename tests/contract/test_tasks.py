"""Clients that know tasks, of a real engine over HTTP: they get handles and ask for the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.events import ToolCalled
from discovery_engine.rpc.protocol import CLIENT_CAPABILITIES, SUBSCRIPTION_ID, TASKS_EXTENSION
from discovery_server.gateway import ClientRequest, Gateway
from tests.engines import Folder
from tests.kinds import thinned
from tests.task_clients import FORMS, TASKS, TaskClient, client_of, engine_of, text_of
from tests.unit.server.web import served
from tests.unit.server.wire import MODERN

pytestmark = pytest.mark.anyio

ACCEPTED = {"action": "accept", "content": {"sure": True}}


@pytest.mark.requirement("TSK-20", "TSK-22")
@pytest.mark.parametrize("mode", ["meta", "direct"])
async def test_a_client_that_knows_tasks_is_handed_one(tmp_path: Path, mode: str) -> None:
    async with client_of(tmp_path, "works", server={"mode": mode}) as client:
        if mode == "meta":
            handed = await client.call("works:work")
        else:
            answer = await client.send("tools/call", name="works__work", arguments={})
            handed = answer["result"]
        state = await client.ended(handed["taskId"])

    assert handed["resultType"] == "task"
    assert handed["status"] == "working"
    assert handed["taskId"] != "task-1"
    assert len(handed["taskId"]) >= 32
    assert (handed["ttlMs"], handed["createdAt"]) == (600_000, "2026-11-22T10:00:00Z")
    assert handed["pollIntervalMs"] == 100
    assert "content" not in handed
    assert state["resultType"] == "complete"
    assert state["taskId"] == handed["taskId"]
    assert state["status"] == "completed"
    assert text_of(state["result"]) == "{}"


@pytest.mark.requirement("TSK-2", "TSK-20")
@pytest.mark.parametrize("mode", ["meta", "direct"])
async def test_a_client_that_does_not_know_tasks_gets_the_result(tmp_path: Path, mode: str) -> None:
    async with client_of(tmp_path, "works", server={"mode": mode}) as client:
        name, given = "works__work", {}
        if mode == "meta":
            name, given = "execute_tool", {"tool": "works:work"}
        answer = await client.send("tools/call", {}, name=name, arguments=given)

    result = answer["result"]
    assert result["resultType"] == "complete"
    assert text_of(result) == "{}"
    assert "taskId" not in result


@pytest.mark.requirement("TSK-2")
async def test_a_client_of_the_era_with_a_handshake_gets_the_result(tmp_path: Path) -> None:
    async with client_of(tmp_path, "works") as client:
        session = await client.open()
        arguments = {"tool": "works:work"}
        answer = await super(TaskClient, client).call("execute_tool", arguments, session=session)

    assert text_of(json.loads(answer.text.rpartition("data: ")[2] or answer.text)["result"]) == "{}"


@pytest.mark.requirement("TSK-2")
async def test_a_step_waits_for_its_task(tmp_path: Path) -> None:
    async with client_of(tmp_path, "works", server={"steps": True}) as client:
        steps = [{"id": "a", "tool": "works:work"}]
        answer = await client.send("tools/call", name="execute_steps", arguments={"steps": steps})
        asked = await client.log("works")

    assert answer["result"]["resultType"] == "complete"
    assert asked == [["tasks/get", "task-1"]] * 3


@pytest.mark.requirement("TSK-21")
async def test_the_extension_is_announced_where_it_is_served(tmp_path: Path) -> None:
    async with engine_of(tmp_path, "works") as engine:
        gateway = Gateway(engine)
        found = gateway.answer(ClientRequest("server/discover", {"_meta": MODERN}, "2026-07-28"))
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        params["clientInfo"] = {"name": "t", "version": "1"}
        opened = gateway.answer(ClientRequest("initialize", params, "2025-11-25"))

    assert found is not None
    assert opened is not None
    assert found["capabilities"]["extensions"] == {TASKS_EXTENSION: {}}
    assert "tasks" not in found["capabilities"]
    assert "extensions" not in opened["capabilities"]


@pytest.mark.requirement("TSK-21")
async def test_nobody_is_handed_a_task_of_which_a_recording_is_made(tmp_path: Path) -> None:
    async with engine_of(tmp_path, "works"):
        pass  # it has written the configuration
    recorded = Folder(tmp_path).open(record=tmp_path / "recorded")
    async with recorded as engine, served(engine) as address, TaskClient(address) as client:
        result = await client.call("works:work")
        discovered = await client.send("server/discover")
        refused = await client.about("get", "anything")

    assert text_of(result) == "{}"
    assert "extensions" not in discovered["result"]["capabilities"]
    assert refused["error"]["code"] == -32601


@pytest.mark.requirement("TSK-21")
@pytest.mark.parametrize("method", ["get", "update", "cancel"])
async def test_who_does_not_declare_the_extension_is_answered_so(
    tmp_path: Path, method: str
) -> None:
    more: Any = {"inputResponses": {}} if method == "update" else {}
    async with client_of(tmp_path, "works") as client:
        task = (await client.call("works:work"))["taskId"]
        answer = await client.about(method, task, capabilities={}, **more)
        asked = await client.log("works")

    error = answer["error"]
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": TASKS}
    assert asked == []


@pytest.mark.requirement("TSK-21")
@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
async def test_methods_that_the_extension_does_not_have_are_unknown(
    tmp_path: Path, method: str
) -> None:
    async with client_of(tmp_path, "works") as client:
        answer = await client.send(method, taskId="one")

    assert answer["error"]["code"] == -32601


@pytest.mark.requirement("TSK-21")
async def test_a_header_that_names_another_task_is_refused(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, "works") as engine,
        served(engine) as address,
        TaskClient(address) as client,
    ):
        task = (await client.call("works:work"))["taskId"]
        client.http.headers["mcp-name"] = "another"
        answer = await client.http.post(
            address,
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tasks/get",
                "params": {"taskId": task, "_meta": MODERN | {CLIENT_CAPABILITIES: TASKS}},
            },
            headers={"mcp-protocol-version": "2026-07-28", "mcp-method": "tasks/get"},
        )

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


@pytest.mark.requirement("TSK-23")
async def test_the_questions_of_a_task_are_shown_and_their_answers_passed_on(
    tmp_path: Path,
) -> None:
    both = {**TASKS, **FORMS}
    async with client_of(tmp_path, "asks_two") as client:
        task = (await client.call("asks_two:work", both))["taskId"]
        first = await client.get(task, capabilities=both)
        ack = await client.about("update", task, inputResponses={"one": ACCEPTED})
        second = await client.get(task, capabilities=both)
        await client.about("update", task, inputResponses={"two": ACCEPTED})
        last = await client.get(task, capabilities=both)

    assert first["status"] == "input_required"
    assert first["inputRequests"].keys() == {"one", "two"}
    message = first["inputRequests"]["one"]["params"]["message"]
    assert message == "asks_two asks: Delete it?"
    assert ack["result"].keys() <= {"resultType", "_meta"}
    assert ack["result"]["resultType"] == "complete"
    assert second["inputRequests"].keys() == {"two"}
    assert json.loads(text_of(last["result"])) == {"one": ACCEPTED, "two": ACCEPTED}


@pytest.mark.requirement("TSK-23")
async def test_a_client_that_cannot_answer_the_question_of_its_task_is_told_what_it_lacks(
    tmp_path: Path,
) -> None:
    async with client_of(tmp_path, "asks") as client:
        task = (await client.call("asks:work"))["taskId"]
        answer = await client.about("get", task)
        await client.about("cancel", task)

    assert answer["error"]["code"] == -32021
    assert "elicitation" in answer["error"]["data"]["requiredCapabilities"]


@pytest.mark.requirement("TSK-2", "TSK-5")
async def test_a_client_with_forms_and_without_tasks_is_asked_in_its_call(tmp_path: Path) -> None:
    async with client_of(tmp_path, "asks") as client:
        given = {"name": "execute_tool", "arguments": {"tool": "asks:work"}}
        asked = (await client.send("tools/call", FORMS, **given))["result"]
        [key] = asked["inputRequests"]
        continued = {"requestState": asked["requestState"], "inputResponses": {key: ACCEPTED}}
        done = (await client.send("tools/call", FORMS, **given, **continued))["result"]

    assert asked["resultType"] == "input_required"
    assert done["resultType"] == "complete"
    assert json.loads(text_of(done)) == {"sure": ACCEPTED}


@pytest.mark.requirement("TSK-20")
async def test_a_call_that_wanted_input_first_becomes_a_task(tmp_path: Path) -> None:
    both = {**TASKS, **FORMS}
    async with client_of(tmp_path, "input_first") as client:
        given = {"name": "execute_tool", "arguments": {"tool": "input_first:work"}}
        first = (await client.send("tools/call", both, **given))["result"]
        responses = {"inputResponses": {"first": ACCEPTED}}
        handed = (await client.send("tools/call", both, **given, **responses))["result"]
        state = await client.ended(handed["taskId"])

    assert first["resultType"] == "input_required"
    assert handed["resultType"] == "task"
    assert "requestState" not in handed
    assert json.loads(text_of(state["result"])) == {"first": ACCEPTED}


@pytest.mark.requirement("TSK-22")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("fails", {"status": "failed", "error": {"code": -32603, "message": "no quota left"}}),
        ("cancelled", {"status": "cancelled", "statusMessage": "the night shift ended"}),
    ],
)
async def test_a_task_that_ends_otherwise_shows_how(
    tmp_path: Path, mode: str, expected: dict[str, Any]
) -> None:
    async with client_of(tmp_path, mode) as client:
        task = (await client.call(f"{mode}:work"))["taskId"]
        state = await client.ended(task)

    assert expected.items() <= state.items()
    assert "result" not in state


@pytest.mark.requirement("TSK-22")
@pytest.mark.parametrize(
    ("mode", "code", "said"),
    thinned(
        [
            ("lost", -32602, "TASK_NOT_FOUND"),
            ("dies", -32603, "TOOL_OUTCOME_UNKNOWN"),
            ("breaks", -32603, "try again"),
            ("other_id", -32700, "another task"),
            ("strange_status", -32700, "not one of MCP"),
            ("strange_result", -32700, "no valid result"),
            ("nested_task", -32700, "no valid result"),
            ("no_error", -32700, "no valid result"),
        ]
    ),
)
async def test_what_a_server_does_wrong_with_a_task_is_an_error_of_the_request(
    tmp_path: Path, mode: str, code: int, said: str
) -> None:
    async with client_of(tmp_path, mode, "works") as client:
        task = (await client.call(f"{mode}:work"))["taskId"]
        answer = await client.about("get", task)
        neighbour = await client.call("works:echo", arguments={"text": "fine"})

    assert answer["error"]["code"] == code
    assert said in answer["error"]["message"]
    assert "fine" in text_of(neighbour)


@pytest.mark.requirement("TSK-22")
async def test_a_task_of_a_program_that_was_started_again_is_not_taken_for_its_own(
    tmp_path: Path,
) -> None:
    async with client_of(tmp_path, "dies") as client:
        old = (await client.call("dies:work"))["taskId"]
        await client.about("get", old)  # it exits
        new = (await client.call("dies:work"))["taskId"]  # it is task-1, too
        answer = await client.about("get", old)
        asked = await client.log("dies")

    assert new != old
    assert answer["error"]["code"] == -32602
    assert asked == []


@pytest.mark.requirement("TSK-24")
async def test_cancelling_asks_the_server_and_says_nothing_more(tmp_path: Path) -> None:
    async with client_of(tmp_path, "endless") as client:
        task = (await client.call("endless:work"))["taskId"]
        ack = await client.about("cancel", task)
        asked = await client.log("endless")

    assert ack["result"].keys() <= {"resultType", "_meta"}
    assert asked == [["tasks/cancel", "task-1"]]


@pytest.mark.requirement("TSK-25")
async def test_the_end_of_a_task_is_recorded_as_that_of_a_call(tmp_path: Path) -> None:
    async with engine_of(tmp_path, "tool_error") as engine:
        with engine.subscribe(ToolCalled) as events:
            async with served(engine) as address, TaskClient(address) as client:
                task = (await client.call("tool_error:work"))["taskId"]
                await client.ended(task)
                await client.get(task)
            called = [one for one in events.drain() if isinstance(one, ToolCalled)]

    assert [(one.tool, one.outcome) for one in called] == [("work", "task"), ("work", "tool_error")]


@pytest.mark.requirement("TSK-25")
async def test_the_result_of_a_task_is_cut_as_that_of_a_call(tmp_path: Path) -> None:
    sections = {"server": {"maxResultTokens": 500}}
    async with client_of(tmp_path, "long", **sections) as client:
        task = (await client.call("long:work"))["taskId"]
        result = (await client.ended(task))["result"]
        [handle] = [result["_meta"]["discovery/answer"]["handle"]]
        arguments = {"handle": handle}
        rest = await client.send("tools/call", name="read_result", arguments=arguments)

    assert len(json.dumps(result)) < 5_000
    assert not rest["result"].get("isError")


@pytest.mark.requirement("TSK-25")
async def test_a_part_of_the_result_of_a_task_can_be_selected(tmp_path: Path) -> None:
    async with client_of(tmp_path, "structured") as client:
        task = (await client.call("structured:work", select="rows[1].name"))["taskId"]
        result = (await client.ended(task))["result"]

    assert "second" in json.dumps(result)
    assert "first" not in json.dumps(result)


@pytest.mark.requirement("TSK-25")
async def test_asking_for_a_task_takes_none_of_the_calls_of_a_minute(tmp_path: Path) -> None:
    async with engine_of(tmp_path, "endless") as engine:
        config = json.loads((tmp_path / "discovery.yaml").read_text("utf-8"))
        config["servers"]["endless"]["limits"] = {"callsPerMinute": 1, "burst": 1}
        (tmp_path / "discovery.yaml").write_text(json.dumps(config), "utf-8")
        await engine.reload()
        async with served(engine) as address, TaskClient(address) as client:
            task = (await client.call("endless:work"))["taskId"]
            states = [await client.get(task) for _ in range(3)]
            refused = await client.call("endless:work")

    assert [one["status"] for one in states] == ["working"] * 3
    assert "RATE_LIMITED" in text_of(refused)


@pytest.mark.thorough
@pytest.mark.requirement("TSK-22", "TSK-25")
async def test_a_client_that_asks_without_a_pause_does_not_flood_the_server(
    tmp_path: Path,
) -> None:
    async with client_of(tmp_path, "endless") as client:
        task = (await client.call("endless:work"))["taskId"]
        began = anyio.current_time()
        for _ in range(200):
            await client.get(task)
        seconds = anyio.current_time() - began
        asked = await client.log("endless")

    assert 1 <= len(asked) <= seconds * 10 + 1


@pytest.mark.thorough
@pytest.mark.requirement("TSK-26")
async def test_a_client_with_too_many_tasks_waits_for_the_next(tmp_path: Path) -> None:
    async with client_of(tmp_path, "endless", "works") as client:
        handles = {(await client.call("endless:work"))["taskId"] for _ in range(128)}
        waited = await client.call("works:work")
        await client.about("cancel", handles.pop())

    assert waited["resultType"] == "complete"
    assert text_of(waited) == "{}"


@pytest.mark.thorough
@pytest.mark.requirement("TSK-26")
async def test_tasks_that_are_over_make_room(tmp_path: Path) -> None:
    async with client_of(tmp_path, "fails") as client:
        first = (await client.call("fails:work"))["taskId"]
        await client.get(first)
        for _ in range(127):
            await client.call("fails:work")
        last = await client.call("fails:work")
        gone = await client.about("get", first)

    assert last["resultType"] == "task"
    assert gone["error"]["code"] == -32602


def is_completed(message: JSONObject) -> bool:
    return bool(message["params"].get("status") == "completed")


@pytest.mark.requirement("TSK-27")
async def test_a_subscriber_is_notified_of_its_task_to_the_end(tmp_path: Path) -> None:
    async with client_of(tmp_path, "works") as client:
        task = (await client.call("works:work"))["taskId"]
        received = await client.notified(is_completed, taskIds=[task, "task-1", "forged"])

    first, *changes = received
    assert first["params"]["notifications"] == {"taskIds": [task]}
    assert [one["method"] for one in changes] == ["notifications/tasks"] * 3
    assert [one["params"]["status"] for one in changes] == ["working", "working", "completed"]
    assert {one["params"]["taskId"] for one in changes} == {task}
    assert {one["params"]["_meta"][SUBSCRIPTION_ID] for one in changes} == {
        first["params"]["_meta"][SUBSCRIPTION_ID]
    }
    assert all("resultType" not in one["params"] for one in changes)
    assert text_of(changes[-1]["params"]["result"]) == "{}"


@pytest.mark.requirement("TSK-27")
async def test_who_does_not_declare_the_extension_subscribes_to_no_task(tmp_path: Path) -> None:
    async with client_of(tmp_path, "works") as client:
        refused = await client.send("subscriptions/listen", {}, notifications={"taskIds": ["x"]})

    assert refused["error"]["code"] == -32021
    assert refused["error"]["data"] == {"requiredCapabilities": TASKS}
