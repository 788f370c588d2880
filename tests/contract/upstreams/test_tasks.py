"""Calls that become tasks at their server, of callers that wait for the result."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import Limits, ServerSettings, Timeouts
from discovery_engine.errors import (
    InputRequiredError,
    OutcomeUnknownError,
    TaskNotFoundError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.rpc.client import CallbackClient, Continuation
from discovery_engine.rpc.protocol import TASKS_EXTENSION
from discovery_engine.upstream.requests import UpstreamRequest
from discovery_engine.upstream.upstreams import Upstreams
from tests.kinds import thinned
from tests.servers.programs import (
    Footprint,
    Neighbour,
    call,
    eventually,
    fault_server,
    http_server,
    remote_server,
    text_of,
    upstreams,
)

pytestmark = pytest.mark.anyio


class Person(CallbackClient):
    """Answers every question in one way, and notes them."""

    def __init__(self, action: str = "accept") -> None:
        super().__init__(self.give, capabilities={"elicitation": {"form": {}}})
        self.action = action
        self.asked: list[JSONObject] = []

    async def give(self, method: str, params: JSONObject) -> JSONObject:
        self.asked.append(params)
        return {"action": self.action, "content": {"number": len(self.asked)}}


class Reports:
    def __init__(self) -> None:
        self.progress: list[float] = []
        self.messages: list[str | None] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(progress)
        self.messages.append(message)


def task_server(mode: str, *, era: str = "modern", **settings: Any) -> ServerSettings:
    return fault_server(mode, era=era, name="tasks", program="task_server.py", **settings)


async def work(opened: Upstreams, server: ServerSettings, **more: Any) -> JSONObject:
    with anyio.fail_after(60):
        return await opened.call(server, "work", {}, **more)


async def requests(opened: Upstreams, server: ServerSettings) -> list[str]:
    """The methods of the requests about tasks that the server has had."""
    return [method for method, _ in json.loads(await call(opened, server, "log"))]


@pytest.mark.requirement("TSK-2", "TSK-6")
async def test_a_task_ends_as_a_plain_call_does() -> None:
    server, reports = task_server("works"), Reports()

    async with upstreams() as opened:
        result = await work(opened, server, on_progress=reports)
        asked = await requests(opened, server)

    assert result == {"content": [{"type": "text", "text": "{}"}]}
    assert asked == ["tasks/get"] * 3
    assert reports.messages == ["working", "step 1", "step 2"]


@pytest.mark.requirement("TSK-6")
async def test_progress_goes_on_where_that_of_the_request_has_ended() -> None:
    reports = Reports()

    async with upstreams() as opened:
        await work(opened, task_server("progress"), on_progress=reports)

    assert reports.progress[0] == 41.5
    assert reports.progress == sorted(set(reports.progress))


@pytest.mark.requirement("TSK-6")
async def test_a_task_ends_although_the_callback_of_progress_fails() -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("a defect of the caller")

    async with upstreams() as opened:
        result = await work(opened, task_server("works"), on_progress=fail)

    assert text_of(result) == "{}"


@pytest.mark.requirement("TSK-2")
@pytest.mark.parametrize("mode", ["over_at_once", "huge_interval"])
async def test_an_odd_but_valid_task_ends_with_its_result(mode: str) -> None:
    async with upstreams() as opened:
        assert text_of(await work(opened, task_server(mode))) == "{}"


@pytest.mark.requirement("TSK-2")
async def test_the_failure_of_a_tool_is_a_result() -> None:
    async with upstreams() as opened:
        result = await work(opened, task_server("tool_error"))

    assert result["isError"] is True
    assert text_of(result) == "it did not work"


@pytest.mark.requirement("TSK-1")
async def test_the_extension_is_declared_to_who_declares_it() -> None:
    async with upstreams() as opened:
        to_one = json.loads(await call(opened, task_server("works"), "declared"))
        to_other = json.loads(await call(opened, task_server("undeclared"), "declared"))

    assert to_one == {"extensions": {TASKS_EXTENSION: {}}}
    assert to_other == {}


@pytest.mark.requirement("TSK-1", "TSK-5")
async def test_the_capabilities_of_the_caller_are_declared_beside_the_extension() -> None:
    async with upstreams() as opened:
        result = await opened.call(task_server("works"), "declared", {}, caller=Person())

    declared = json.loads(text_of(result))
    assert declared.keys() == {"elicitation", "extensions"}


@pytest.mark.requirement("TSK-1")
@pytest.mark.parametrize("era", ["modern", "both"])
async def test_a_task_of_a_server_that_does_not_declare_them_is_an_error(era: str) -> None:
    server = task_server("undeclared", era=era)

    async with upstreams() as opened:
        with pytest.raises(UpstreamProtocolError, match="does not declare"):
            await work(opened, server)
        assert json.loads(await call(opened, server, fine=True)) == {"fine": True}


@pytest.mark.requirement("TSK-1")
async def test_a_server_of_the_era_with_a_handshake_has_no_tasks() -> None:
    server = task_server("works", era="legacy")

    async with upstreams() as opened:
        declared = await call(opened, server, "declared")
        with pytest.raises(UpstreamProtocolError, match="returned a task"):
            await work(opened, server)

    assert json.loads(declared) is None


@pytest.mark.requirement("TSK-1")
async def test_nothing_but_the_call_of_a_tool_becomes_a_task() -> None:
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamProtocolError, match="resources/read"):
            await opened.send(task_server("reads"), UpstreamRequest.read("test://one"))


@pytest.mark.requirement("TSK-5")
@pytest.mark.parametrize(
    ("mode", "questions"), [("asks", 1), ("asks_two", 2), ("keeps_asking", 1), ("input_first", 1)]
)
async def test_a_person_is_asked_each_question_of_a_task_once(mode: str, questions: int) -> None:
    server, person = task_server(mode), Person()

    async with upstreams() as opened:
        given = json.loads(text_of(await work(opened, server, caller=person)))
        asked = await requests(opened, server)

    assert len(person.asked) == len(given) == questions
    assert [one["content"]["number"] for one in given.values()] == [*range(1, questions + 1)]
    assert person.asked[0]["_meta"]["discovery/server"] == "tasks"
    assert asked.count("tasks/update") == (0 if mode == "input_first" else 1)


@pytest.mark.requirement("TSK-5")
async def test_a_client_that_continues_calls_itself_becomes_a_task_on_its_last_round() -> None:
    class Continuing(Person):
        takes_input_required = True

    server, person = task_server("input_first"), Continuing()

    async with upstreams() as opened:
        first = await work(opened, server, caller=person)
        answers = Continuation({"first": {"action": "accept", "content": {}}})
        last = await work(opened, server, caller=person, continuation=answers)

    assert first["resultType"] == "input_required"
    assert "accept" in text_of(last)
    assert person.asked == []


@pytest.mark.requirement("TSK-5", "TSK-7")
async def test_a_task_whose_question_nobody_can_answer_is_cancelled() -> None:
    server = task_server("asks")

    async with upstreams() as opened:
        with pytest.raises(InputRequiredError) as raised:
            await work(opened, server)
        asked = await requests(opened, server)

    assert "elicitation" in raised.value.hint
    assert asked == ["tasks/get", "tasks/cancel"]


@pytest.mark.requirement("TSK-5")
async def test_a_task_cannot_ask_for_ever() -> None:
    server, person = task_server("asks_for_ever"), Person()

    async with upstreams() as opened:
        with pytest.raises(InputRequiredError, match="more than 100 times"):
            await work(opened, server, caller=person)
        asked = await requests(opened, server)

    assert len(person.asked) == 100
    assert asked[-1] == "tasks/cancel"


@pytest.mark.requirement("TSK-7")
@pytest.mark.parametrize("mode", ["endless", "slow_polls", "deaf_to_cancel"])
async def test_a_call_that_is_given_up_cancels_its_task(mode: str) -> None:
    server = task_server(mode)

    async with upstreams() as opened:
        reports = Reports()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: work(opened, server, on_progress=reports))
            await eventually(lambda: bool(reports.progress))
            tasks.cancel_scope.cancel()
        asked = await requests(opened, server)

    assert asked[-1] == "tasks/cancel"
    assert asked.count("tasks/cancel") == 1


@pytest.mark.requirement("TSK-8")
@pytest.mark.parametrize(
    ("mode", "error", "said"),
    thinned(
        [
            ("fails", UpstreamProtocolError, 'answered error -32603: "no quota left"'),
            ("cancelled", UpstreamError, "cancelled the task of 'work': \"the night shift ended\""),
            ("lost", OutcomeUnknownError, "does not know the task any more"),
            ("dies", OutcomeUnknownError, "it exited with status 3"),
            ("breaks", UpstreamProtocolError, "try again"),
            ("other_id", UpstreamProtocolError, "about another task"),
            ("no_id", UpstreamProtocolError, "not one of MCP"),
            ("strange_status", UpstreamProtocolError, "not one of MCP"),
            ("strange_question", UpstreamProtocolError, "not one of MCP"),
            ("strange_result", UpstreamProtocolError, "no valid result"),
            ("nested_task", UpstreamProtocolError, "no valid result"),
            ("no_error", UpstreamProtocolError, "no valid result"),
        ]
    ),
)
async def test_a_task_that_goes_wrong_is_an_error_that_says_how(
    mode: str, error: type[UpstreamError], said: str
) -> None:
    async with upstreams() as opened, anyio.create_task_group() as tasks:
        healthy = Neighbour(opened, fault_server(name="healthy"))
        tasks.start_soon(healthy.ask_on)
        with pytest.raises(error) as raised:
            await work(opened, task_server(mode), caller=Person())
        before = healthy.answers
        await eventually(lambda: healthy.answers > before)
        tasks.cancel_scope.cancel()

    assert said in raised.value.message


@pytest.mark.requirement("TSK-8")
async def test_a_task_that_is_lost_is_not_begun_again() -> None:
    server = task_server("lost")

    async with upstreams() as opened:
        with pytest.raises(OutcomeUnknownError):
            await work(opened, server)
        log = json.loads(await call(opened, server, "log"))

    assert {task for _, task in log} == {"task-1"}


@pytest.mark.requirement("TSK-9")
async def test_two_failures_in_a_row_do_not_end_a_task() -> None:
    async with upstreams() as opened:
        assert text_of(await work(opened, task_server("hiccups"))) == "{}"


@pytest.mark.thorough
@pytest.mark.requirement("TSK-4", "TSK-9")
async def test_a_server_that_answers_no_request_for_its_task_is_given_up() -> None:
    server = task_server("silent", timeouts=Timeouts(call=1.0))

    async with upstreams() as opened:
        with pytest.raises(UpstreamTimeoutError):
            await work(opened, server)
        asked = await requests(opened, server)

    assert asked == ["tasks/get"] * 3 + ["tasks/cancel"]


@pytest.mark.requirement("TSK-10")
async def test_an_idle_session_stays_open_for_a_task() -> None:
    server, reports = task_server("slow_polls"), Reports()

    async with upstreams(idle_timeout=0.05) as opened, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: work(opened, server, on_progress=reports))
        await eventually(lambda: bool(reports.progress))
        await call(opened, fault_server(name="idle"))
        await eventually(lambda: "idle" not in opened.sessions())
        assert "tasks" in opened.sessions()
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("TSK-10")
async def test_tasks_do_not_hold_up_the_other_calls_of_their_server() -> None:
    server, reports = task_server("slow_polls", limits=Limits(calls=1)), Reports()

    async with upstreams() as opened, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(lambda: work(opened, server, on_progress=reports))
        await eventually(lambda: len(reports.progress) == 3)
        assert await call(opened, server) == "{}"
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("TSK-10")
async def test_tasks_that_have_ended_leave_nothing_behind() -> None:
    server = task_server("works")

    async with upstreams() as opened:
        await work(opened, server)
        before = Footprint.of_this_process()
        for _ in range(5):
            await work(opened, server)

        assert Footprint.of_this_process().more_than(before) == []


@pytest.mark.requirement("TSK-2", "TSK-5")
async def test_a_remote_server_has_tasks() -> None:
    with http_server("http", program="tasks_http_server.py") as address:
        server = remote_server(f"{address}/mcp", name="tasks")
        async with upstreams() as opened:
            with anyio.fail_after(60):
                slow = await opened.call(server, "slow_compute", {"seconds": 0, "label": "one"})
                person = Person()
                sure = await opened.call(
                    server, "confirm_delete", {"filename": "a.txt"}, caller=person
                )

    assert "one" in text_of(slow)
    assert "a.txt" in text_of(sure)
    assert len(person.asked) == 1


class Polling(CallbackClient):
    """A client that is handed tasks."""

    takes_tasks = True


async def handed(opened: Upstreams, server: ServerSettings, tool: str, **given: Any) -> Any:
    """A task that the client `ann` was handed."""
    with anyio.fail_after(60):
        result = await opened.call(server, tool, given, caller=Polling(id="ann"))
    return opened.tasks.get(result["taskId"], owner="ann")


@pytest.mark.thorough
@pytest.mark.requirement("TSK-22")
async def test_a_remote_server_has_its_tasks_in_its_next_session_too() -> None:
    with http_server("http", program="tasks_http_server.py") as address:
        server = remote_server(f"{address}/mcp", name="tasks")
        async with upstreams() as opened:
            task = await handed(opened, server, "slow_compute", seconds=600, label="one")
            await opened.close(server.name)
            await eventually(lambda: not opened.sessions())
            with anyio.fail_after(60):
                state = await opened.ask_task(server, task, "tasks/get", Polling(id="ann"))

    assert state["status"] == "working"
    assert state["taskId"] == task.handle


@pytest.mark.requirement("TSK-22")
async def test_a_program_that_was_started_again_has_not_its_old_tasks() -> None:
    server = task_server("endless")

    async with upstreams() as opened:
        task = await handed(opened, server, "work")
        await opened.close(server.name)
        await eventually(lambda: not opened.sessions())
        with anyio.fail_after(60), pytest.raises(TaskNotFoundError):
            await opened.ask_task(server, task, "tasks/get", Polling(id="ann"))
        assert await requests(opened, server) == []


@pytest.mark.requirement("TSK-26")
async def test_an_idle_session_stays_open_for_a_task_that_was_handed_out() -> None:
    server = task_server("endless")

    async with upstreams(idle_timeout=0.05) as opened:
        task = await handed(opened, server, "work")
        await call(opened, fault_server(name="idle"))
        await eventually(lambda: "idle" not in opened.sessions())
        assert "tasks" in opened.sessions()
        with anyio.fail_after(60):
            await opened.ask_task(server, task, "tasks/cancel", Polling(id="ann"))
        await eventually(lambda: "tasks" not in opened.sessions())


@pytest.mark.thorough
@pytest.mark.requirement("TSK-22")
async def test_a_remote_server_that_is_gone_is_not_tried_at_each_request_for_its_task() -> None:
    async with upstreams() as opened:
        with http_server("http", program="tasks_http_server.py") as address:
            server = remote_server(f"{address}/mcp", name="tasks")
            task = await handed(opened, server, "slow_compute", seconds=600, label="one")
        await opened.close(server.name)
        await eventually(lambda: not opened.sessions())
        errors = []
        for _ in range(5):
            with anyio.fail_after(60), pytest.raises(UpstreamError) as raised:
                await opened.ask_task(server, task, "tasks/get", Polling(id="ann"))
            errors.append(raised.value)

    assert [type(one) for one in errors] == [UnavailableError] * 5
    assert getattr(errors[-1], "retry_after", None) is not None
