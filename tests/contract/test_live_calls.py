"""Calls over the API that report progress, ask questions, and are cancelled: specs/api.md."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.api_server import OWN, Api, received, served, until
from tests.engines import Folder
from tests.servers.programs import fault_server

pytestmark = pytest.mark.anyio


def asking(mode: str) -> Any:
    return fault_server(mode, era="legacy", name="asking", program="asking_server.py")


class Made:
    """A call that runs in a task; its answer is there when the block has ended."""

    answer: httpx2.Response

    @property
    def text(self) -> str:
        text: str = self.answer.json()["result"]["content"][0]["text"]
        return text


@asynccontextmanager
async def calling(api: Api, path: str, token: str = OWN, **body: Any) -> AsyncIterator[Made]:
    made = Made()

    async def call() -> None:
        made.answer = await api.ask(f"{path}/call", "POST", token=token, json=body)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        yield made


async def waiting(api: Api, token: str = OWN) -> dict[str, Any]:
    """The first question that waits."""
    while True:
        found = (await api.ask("/questions", token=token)).json()["questions"]
        if found:
            question: dict[str, Any] = found[0]
            return question


@pytest.mark.requirement("VIEW-22")
async def test_a_call_over_the_api_ends_with_its_token(folder: Folder, tmp_path: Path) -> None:
    done = tmp_path / "done"
    async with served(folder, fault_server("awaits_file", name="slow")) as api:
        value, token = api.tokens.create()
        arguments = {"text": str(done)}
        path = "/servers/slow/tools/echo"
        async with calling(api, path, token=value, call_id="one", arguments=arguments) as made:
            while not (await api.ask("/calls")).json()["calls"]:
                await anyio.lowlevel.checkpoint()
            api.tokens.revoke(token.id)
        running = (await api.ask("/calls")).json()["calls"]

    assert made.answer.status_code == 401
    assert made.answer.json()["code"] == "UNAUTHORIZED"
    assert running == []


@pytest.mark.requirement("API-45")
async def test_a_call_with_an_id_reports_its_progress_as_events(
    folder: Folder, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    slow = fault_server("awaits_file", name="slow")
    async with served(folder, slow) as api, api.connect() as socket:
        await received(socket)
        arguments = {"text": str(done)}
        path = "/servers/slow/tools/echo"
        async with calling(api, path, arguments=arguments, call_id="c1") as made:
            first = await until(socket, "call_progress")
            [running] = (await api.ask("/calls")).json()["calls"]
            later = await until(socket, "call_progress")
            done.touch()
        ended = (await api.ask("/calls")).json()["calls"]

    assert {**first, "progress": 0, "sequence": 0} == {
        "sequence": 0,
        "type": "call_progress",
        "call_id": "c1",
        "server": "slow",
        "tool": "echo",
        "progress": 0,
        "total": None,
        "message": None,
    }
    assert later["progress"] > first["progress"]
    assert (running["call_id"], running["progress"]["progress"] > 0) == ("c1", True)
    assert made.text == "done"
    assert ended == []


@pytest.mark.requirement("API-45")
async def test_a_call_is_cancelled_by_its_id_and_its_server_learns_of_it(folder: Folder) -> None:
    hanging = fault_server("hang_call", name="hanging")
    async with served(folder, hanging) as api, api.connect() as socket:
        path = "/servers/hanging/tools"
        async with calling(api, f"{path}/hang", call_id="c1") as made:
            while not (await api.ask("/calls")).json()["calls"]:
                pass
            again = await api.ask(f"{path}/hang/call", "POST", json={"call_id": "c1"})
            # The server has the call once it has answered another one behind it.
            await api.ask(f"{path}/echo/call", "POST", json={})
            cancelled = await api.ask("/calls/c1", "DELETE")
        told = await api.ask(f"{path}/cancelled/call", "POST", json={})
        gone = await api.ask("/calls/c1", "DELETE")
        outcomes: dict[str, str] = {}
        while "hang" not in outcomes:
            for event in (await received(socket)).get("events", ()):
                if event["type"] == "tool_called":
                    outcomes[event["tool"]] = event["outcome"]

    assert again.status_code == 409
    assert cancelled.json() == {"cancelled": True}
    assert (made.answer.status_code, made.answer.json()["code"]) == (409, "CALL_CANCELLED")
    assert len(json.loads(told.json()["result"]["content"][0]["text"])) == 1
    assert gone.status_code == 404
    assert outcomes["hang"] == "cancelled"


@pytest.mark.requirement("API-47")
async def test_a_form_waits_for_its_answer_which_must_fit(folder: Folder) -> None:
    async with served(folder, asking("form")) as api, api.connect() as socket:
        path = "/servers/asking/tools/echo"
        async with calling(api, path, call_id="c1", takes_questions=True) as made:
            event = await until(socket, "question")
            question = await waiting(api)
            address = f"/questions/{question['question_id']}"
            wrong = {"action": "accept", "content": {"name": "Ann", "age": "old"}}
            refused = await api.ask(address, "POST", json=wrong)
            right = {"action": "accept", "content": {"name": "Ann", "age": 30}}
            accepted = await api.ask(address, "POST", json=right)
            closed = await until(socket, "question_closed")
        late = await api.ask(address, "POST", json=right)

    assert (event["question_id"], event["call_id"]) == (question["question_id"], "c1")
    assert closed["question_id"] == question["question_id"]
    assert "Who are you?" not in json.dumps(event)
    assert (question["kind"], question["server"], question["tool"]) == ("form", "asking", "echo")
    assert question["message"] == "asking asks: Who are you?"
    assert list(question["schema"]["properties"]) == ["name", "age", "password", "colour"]
    assert (refused.status_code, "age" in refused.json()["message"]) == (422, True)
    assert accepted.json() == {"answered": True}
    assert json.loads(made.text)[0]["result"] == right
    assert late.status_code == 404


@pytest.mark.requirement("API-47")
async def test_an_address_is_shown_and_answered_without_fields(folder: Folder) -> None:
    async with served(folder, asking("address")) as api:
        path = "/servers/asking/tools/echo"
        async with calling(api, path, call_id="c1", takes_questions=True) as made:
            question = await waiting(api)
            answer = {"action": "accept"}
            await api.ask(f"/questions/{question['question_id']}", "POST", json=answer)

    assert (question["kind"], question["url"]) == ("url", "https://example.org/login")
    assert "schema" not in question
    assert json.loads(made.text)[0]["result"] == {"action": "accept"}


@pytest.mark.requirement("API-47")
async def test_a_call_that_takes_no_questions_is_asked_none(folder: Folder) -> None:
    async with served(folder, asking("fails")) as api:
        path = "/servers/asking/tools/echo"
        async with calling(api, path, call_id="c1") as made:
            pass
        without_id = await api.ask(f"{path}/call", "POST", json={"takes_questions": True})

    assert made.answer.json()["code"] == "TOOL_NEEDS_INPUT"
    assert without_id.status_code == 422


@pytest.mark.requirement("API-45")
async def test_nobody_sees_cancels_or_answers_the_calls_of_another_token(folder: Folder) -> None:
    async with served(folder, asking("form")) as api:
        mine, _ = api.tokens.create(scopes=frozenset({"read", "call"}))
        other, _ = api.tokens.create(scopes=frozenset({"read", "call"}))
        path = "/servers/asking/tools/echo"
        async with calling(api, path, mine, call_id="c1", takes_questions=True):
            question = await waiting(api, mine)
            address = f"/questions/{question['question_id']}"
            accepted = {"action": "accept", "content": {"name": "Eve", "age": 1}}
            seen = await api.ask("/questions", token=other)
            calls = await api.ask("/calls", token=other)
            answered = await api.ask(address, "POST", token=other, json=accepted)
            cancelled = await api.ask("/calls/c1", "DELETE", token=other)
            of_owner = (await api.ask("/questions")).json()["questions"]
            declined = await api.ask(address, "POST", token=mine, json={"action": "decline"})

    assert (seen.json()["questions"], calls.json()["calls"]) == ([], [])
    assert (answered.status_code, cancelled.status_code) == (404, 404)
    assert of_owner == [question]
    assert declined.status_code == 200
