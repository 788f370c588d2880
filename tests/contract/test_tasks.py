"""Calls that become tasks at their server: specs/tasks.md."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import CallbackClient
from discovery_engine.errors import (
    InputRequiredError,
    OutcomeUnknownError,
    UpstreamError,
    UpstreamProtocolError,
)
from tests.engines import Folder
from tests.server_entries import Entry, call, engine_of, fault, outcome
from tests.servers.programs import eventually, http_server
from tests.task_clients import FORMS, TASKS, TaskClient, client_of, text_of

pytestmark = pytest.mark.anyio

ACCEPTED = {"action": "accept", "content": {"sure": True}}


def task_server(mode: str, era: str = "modern", **more: Any) -> Entry:
    return fault(mode, era=era, program="task_server.py", **more)


async def requests(engine: Any, server: str) -> list[str]:
    """The methods of the requests about tasks that a server has had."""
    return [method for method, _ in json.loads(await call(engine, server, "log"))]


class Person(CallbackClient):
    """Answers every question, and notes them."""

    def __init__(self) -> None:
        super().__init__(self.give, capabilities={"elicitation": {"form": {}}})
        self.asked: list[Any] = []

    async def give(self, method: str, params: Any) -> Any:
        self.asked.append(params)
        return {"action": "accept", "content": {"number": len(self.asked)}}


# -- callers that wait -----------------------------------------------------------------------------


@pytest.mark.requirement("TSK-2", "TSK-5")
async def test_a_caller_that_waits_gets_the_result_and_progress_as_of_a_plain_call(
    folder: Folder,
) -> None:
    progress: dict[str, list[tuple[Any, ...]]] = {"works": [], "progress": []}

    async def note(mode: str, *report: object) -> None:
        progress[mode].append(report)

    modes = ("works", "progress", "tool_error", "huge_interval", "hiccups")
    with http_server("http", program="tasks_http_server.py") as address:
        servers = {mode: task_server(mode) for mode in modes}
        servers["remote"] = {"url": f"{address}/mcp"}
        async with engine_of(folder.path, servers) as engine:
            results = {
                mode: await engine.execute(
                    mode, "work", {}, on_progress=partial(note, mode) if mode in progress else None
                )
                for mode in modes
            }
            asked = await requests(engine, "works")
            remote = await call(engine, "remote", "slow_compute", seconds=0, label="one")

    assert results["works"] == {"content": [{"type": "text", "text": "{}"}]}
    assert results["tool_error"]["isError"] is True
    assert text_of(results["huge_interval"]) == text_of(results["hiccups"]) == "{}"
    assert asked == ["tasks/get"] * 3
    assert [message for _, _, message in progress["works"]] == ["working", "step 1", "step 2"]
    numbers = [number for number, _, _ in progress["progress"]]
    assert numbers[0] == 41.5
    assert numbers == sorted(set(numbers))  # the request had begun to report
    assert "one" in remote


@pytest.mark.requirement("TSK-2")
async def test_only_a_server_that_declares_tasks_may_return_one(folder: Folder) -> None:
    servers = {
        "works": task_server("works"),
        "undeclared": task_server("undeclared"),
        "handshake": task_server("works", "legacy"),
    }

    async with engine_of(folder.path, servers) as engine:
        declared = {name: json.loads(await call(engine, name, "declared")) for name in servers}
        errors = [await outcome(engine, name, "work") for name in ("undeclared", "handshake")]

    extensions = {name: (has or {}).get("extensions") for name, has in declared.items()}
    works, undeclared = (extensions[name] for name in ("works", "undeclared"))
    assert works.keys() - undeclared.keys() == TASKS["extensions"].keys()
    assert extensions["handshake"] is None
    assert all(isinstance(error, UpstreamProtocolError) for error in errors)


@pytest.mark.requirement("TSK-5")
async def test_a_client_is_asked_each_question_of_a_task_once(folder: Folder) -> None:
    questions = {"asks": 1, "asks_two": 2, "keeps_asking": 1, "input_first": 1}
    persons = {mode: Person() for mode in questions}

    async with engine_of(folder.path, {mode: task_server(mode) for mode in questions}) as engine:
        given = {
            mode: json.loads(await call(engine, mode, "work", caller=person))
            for mode, person in persons.items()
        }
        unanswered = await outcome(engine, "asks", "work")
        asked = await requests(engine, "asks")

    assert {mode: len(person.asked) for mode, person in persons.items()} == questions
    assert {mode: len(answers) for mode, answers in given.items()} == questions
    assert persons["asks"].asked[0]["_meta"]["discovery/server"] == "asks"
    assert isinstance(unanswered, InputRequiredError)
    assert "elicitation" in unanswered.hint
    assert asked[-1] == "tasks/cancel"


@pytest.mark.requirement("TSK-4")
async def test_a_call_that_is_given_up_cancels_its_task_and_tasks_hold_up_no_other_call(
    folder: Folder,
) -> None:
    reports: list[Any] = []
    servers = {
        "slow": task_server("slow_polls", limits={"calls": 1}),
        "deaf": task_server("deaf_to_cancel"),
    }

    async def note(*report: object) -> None:
        reports.append(report)

    async with engine_of(folder.path, servers) as engine:
        async with anyio.create_task_group() as tasks:
            for name in ("slow", "slow", "slow", "deaf"):
                work = partial(engine.execute, name, "work", {}, on_progress=note)
                tasks.start_soon(work)
            await eventually(lambda: len(reports) >= 4)
            beside = await call(engine, "slow", "echo")
            tasks.cancel_scope.cancel()
        asked = {name: await requests(engine, name) for name in servers}

    assert beside == "{}"
    assert asked["slow"].count("tasks/cancel") == 3
    assert asked["deaf"].count("tasks/cancel") == 1


WRONG: dict[str, tuple[type[UpstreamError], str]] = {
    "fails": (UpstreamProtocolError, 'answered error -32603: "no quota left"'),
    "cancelled": (UpstreamError, "cancelled the task of 'work': \"the night shift ended\""),
    "lost": (OutcomeUnknownError, "does not know the task any more"),
    "dies": (OutcomeUnknownError, "it exited with status 3"),
    "breaks": (UpstreamProtocolError, "try again"),
    "other_id": (UpstreamProtocolError, "about another task"),
    "no_id": (UpstreamProtocolError, "not one of MCP"),
    "strange_status": (UpstreamProtocolError, "not one of MCP"),
    "strange_question": (UpstreamProtocolError, "not one of MCP"),
    "strange_result": (UpstreamProtocolError, "no valid result"),
    "nested_task": (UpstreamProtocolError, "no valid result"),
    "no_error": (UpstreamProtocolError, "no valid result"),
    "asks_for_ever": (InputRequiredError, "more than 100 times"),
}


@pytest.mark.requirement("TSK-8")
async def test_a_task_that_goes_wrong_is_an_error_that_says_how(folder: Folder) -> None:
    servers = {mode: task_server(mode) for mode in WRONG}

    async with engine_of(folder.path, servers) as engine:
        errors = {mode: await outcome(engine, mode, "work", caller=Person()) for mode in WRONG}
        log = json.loads(await call(engine, "lost", "log"))

    wrong = {
        mode: repr(error)
        for mode, error in errors.items()
        if not isinstance(error, WRONG[mode][0]) or WRONG[mode][1] not in error.message
    }
    assert wrong == {}
    assert {task for _, task in log} == {"task-1"}  # it was not begun again


# -- clients that ask for the result themselves ----------------------------------------------------


@pytest.mark.requirement("TSK-20")
@pytest.mark.parametrize("mode", ["meta", "direct"])
async def test_a_client_that_knows_tasks_is_handed_one_and_another_gets_the_result(
    tmp_path: Path, mode: str
) -> None:
    name, given = "works__work", {}
    if mode == "meta":
        name, given = "execute_tool", {"tool": "works:work"}
    async with client_of(tmp_path, "works", server={"mode": mode}) as client:
        handed = (await client.send("tools/call", name=name, arguments=given))["result"]
        state = await client.ended(handed["taskId"])
        plain = (await client.send("tools/call", {}, name=name, arguments=given))["result"]
        session = await client.open()
        old = await super(TaskClient, client).call(name, given, session=session)
        unasked = await client.about("get", handed["taskId"], capabilities={})

    assert (handed["resultType"], handed["status"]) == ("task", "working")
    assert (handed["ttlMs"], handed["createdAt"]) == (600_000, "2026-11-22T10:00:00Z")
    assert "content" not in handed
    assert (state["status"], state["taskId"]) == ("completed", handed["taskId"])
    assert text_of(state["result"]) == text_of(plain) == "{}"
    assert "taskId" not in plain
    assert text_of(json.loads(old.text.rpartition("data: ")[2] or old.text)["result"]) == "{}"
    assert unasked["error"]["code"] == -32021
    assert unasked["error"]["data"] == {"requiredCapabilities": TASKS}


@pytest.mark.requirement("TSK-20")
async def test_the_questions_of_a_task_are_shown_and_their_answers_passed_on(
    tmp_path: Path,
) -> None:
    both = {**TASKS, **FORMS}
    async with client_of(tmp_path, "asks_two", "asks") as client:
        task = (await client.call("asks_two:work", both))["taskId"]
        first = await client.get(task, capabilities=both)
        unable = await client.about("get", task)
        ack = await client.about("update", task, inputResponses={"one": ACCEPTED})
        second = await client.get(task, capabilities=both)
        await client.about("update", task, inputResponses={"two": ACCEPTED})
        last = await client.get(task, capabilities=both)
        given = {"name": "execute_tool", "arguments": {"tool": "asks:work"}}
        asked = (await client.send("tools/call", FORMS, **given))["result"]
        [key] = asked["inputRequests"]
        continued = {"requestState": asked["requestState"], "inputResponses": {key: ACCEPTED}}
        in_its_call = (await client.send("tools/call", FORMS, **given, **continued))["result"]

    assert first["status"] == "input_required"
    assert first["inputRequests"].keys() == {"one", "two"}
    assert first["inputRequests"]["one"]["params"]["message"] == "asks_two asks: Delete it?"
    assert unable["error"]["code"] == -32021
    assert ack["result"]["resultType"] == "complete"
    assert second["inputRequests"].keys() == {"two"}
    assert json.loads(text_of(last["result"])) == {"one": ACCEPTED, "two": ACCEPTED}
    assert json.loads(text_of(in_its_call)) == {"sure": ACCEPTED}


@pytest.mark.thorough
@pytest.mark.requirement("TSK-26")
async def test_a_client_with_too_many_tasks_waits_for_the_next(tmp_path: Path) -> None:
    async with client_of(tmp_path, "endless", "works") as client:
        handles = {(await client.call("endless:work"))["taskId"] for _ in range(128)}
        waited = await client.call("works:work")
        await client.about("cancel", handles.pop())

    assert text_of(waited) == "{}"


@pytest.mark.requirement("TSK-27")
async def test_a_subscriber_is_notified_of_its_task_to_the_end(tmp_path: Path) -> None:
    async with client_of(tmp_path, "works") as client:
        task = (await client.call("works:work"))["taskId"]
        received = await client.notified(
            lambda message: message["params"].get("status") == "completed",
            taskIds=[task, "task-1", "forged"],
        )

    first, *changes = received
    assert first["params"]["notifications"] == {"taskIds": [task]}
    assert [one["params"]["status"] for one in changes] == ["working", "working", "completed"]
    assert {one["params"]["taskId"] for one in changes} == {task}
    assert text_of(changes[-1]["params"]["result"]) == "{}"


@pytest.mark.requirement("TSK-20", "TSK-30")
async def test_a_task_that_is_gone_is_answered_like_a_forged_id(tmp_path: Path) -> None:
    gone = {"lost": -32602, "dies": -32603, "other_id": -32603}
    async with client_of(tmp_path, *gone, "cancelled", "endless") as client:
        tasks = {mode: (await client.call(f"{mode}:work"))["taskId"] for mode in gone}
        first = [(await client.about("get", tasks[mode]))["error"]["code"] for mode in gone]
        again = [(await client.about("get", tasks[mode]))["error"] for mode in gone]
        forged = (await client.about("get", "forged"))["error"]
        log = await client.log("lost")
        cancelled = await client.get((await client.call("cancelled:work"))["taskId"])
        endless = (await client.call("endless:work"))["taskId"]
        ended = await client.about("cancel", endless)
        stopped = await client.log("endless")

    assert first == list(gone.values())
    assert again == [forged] * len(gone)
    assert log == [["tasks/get", "task-1"]]
    assert (cancelled["status"], cancelled["statusMessage"]) == (
        "cancelled",
        "the night shift ended",
    )
    assert ended["result"]["resultType"] == "complete"
    assert stopped == [["tasks/cancel", "task-1"]]
