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

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from tests.contract.test_events import OWN, Host, hosted, received, until
from tests.engines import Folder
from tests.servers.programs import fault_server

pytestmark = pytest.mark.anyio


def asking(mode: str) -> ServerSettings:
    return fault_server(mode, era="legacy", name="asking", program="asking_server.py")


async def ask(
    host: Host, path: str, method: str = "GET", *, token: str = OWN, **options: Any
) -> httpx2.Response:
    headers = {"authorization": f"Bearer {token}"}
    return await host.http.request(method, f"{host.origin}/api{path}", headers=headers, **options)


class Made:
    """A call that runs in a task; its answer is there when the block has ended."""

    answer: httpx2.Response

    @property
    def text(self) -> str:
        text: str = self.answer.json()["result"]["content"][0]["text"]
        return text


@asynccontextmanager
async def calling(host: Host, path: str, token: str = OWN, **body: Any) -> AsyncIterator[Made]:
    made = Made()

    async def call() -> None:
        made.answer = await ask(host, f"{path}/call", "POST", token=token, json=body)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        yield made


async def waiting(host: Host, token: str = OWN) -> JSONObject:
    """The first question that waits."""
    while True:
        found = (await ask(host, "/questions", token=token)).json()["questions"]
        if found:
            question: JSONObject = found[0]
            return question


@pytest.mark.requirement("VIEW-22")
async def test_a_call_over_the_api_ends_with_its_token(folder: Folder, tmp_path: Path) -> None:
    done = tmp_path / "done"
    async with hosted(folder, fault_server("awaits_file", name="slow")) as host:
        value, token = host.tokens.create()
        arguments = {"text": str(done)}
        path = "/servers/slow/tools/echo"
        async with calling(host, path, token=value, call_id="one", arguments=arguments) as made:
            while not (await ask(host, "/calls")).json()["calls"]:
                await anyio.lowlevel.checkpoint()
            host.tokens.revoke(token.id)
        running = (await ask(host, "/calls")).json()["calls"]

    assert made.answer.status_code == 401
    assert made.answer.json()["code"] == "UNAUTHORIZED"
    assert running == []


@pytest.mark.requirement("API-45")
async def test_a_call_with_an_id_reports_its_progress_as_events(
    folder: Folder, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    slow = fault_server("awaits_file", name="slow")
    async with hosted(folder, slow) as host, host.connect() as socket:
        await received(socket)
        arguments = {"text": str(done)}
        path = "/servers/slow/tools/echo"
        async with calling(host, path, arguments=arguments, call_id="c1") as made:
            first = await until(socket, "call_progress")
            [running] = (await ask(host, "/calls")).json()["calls"]
            later = await until(socket, "call_progress")
            done.touch()
        ended = (await ask(host, "/calls")).json()["calls"]

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


@pytest.mark.requirement("API-46")
async def test_a_call_is_cancelled_by_its_id_and_its_server_learns_of_it(folder: Folder) -> None:
    hanging = fault_server("hang_call", name="hanging")
    async with hosted(folder, hanging) as host, host.connect() as socket:
        path = "/servers/hanging/tools"
        async with calling(host, f"{path}/hang", call_id="c1") as made:
            while not (await ask(host, "/calls")).json()["calls"]:
                pass
            again = await ask(host, f"{path}/hang/call", "POST", json={"call_id": "c1"})
            # The server has the call once it has answered another one behind it.
            await ask(host, f"{path}/echo/call", "POST", json={})
            cancelled = await ask(host, "/calls/c1", "DELETE")
        told = await ask(host, f"{path}/cancelled/call", "POST", json={})
        gone = await ask(host, "/calls/c1", "DELETE")
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
    async with hosted(folder, asking("form")) as host, host.connect() as socket:
        path = "/servers/asking/tools/echo"
        async with calling(host, path, call_id="c1", takes_questions=True) as made:
            event = await until(socket, "question")
            question = await waiting(host)
            address = f"/questions/{question['question_id']}"
            wrong = {"action": "accept", "content": {"name": "Ann", "age": "old"}}
            refused = await ask(host, address, "POST", json=wrong)
            right = {"action": "accept", "content": {"name": "Ann", "age": 30}}
            accepted = await ask(host, address, "POST", json=right)
            closed = await until(socket, "question_closed")
        late = await ask(host, address, "POST", json=right)

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
async def test_a_question_ends_with_its_call_and_with_its_time(folder: Folder) -> None:
    short = {"questionTimeout": 0.5}
    async with hosted(folder, asking("form"), server=short) as host:
        path = "/servers/asking/tools/echo"
        async with calling(host, path, call_id="c1", takes_questions=True) as made:
            pass
        none_left = (await ask(host, "/questions")).json()["questions"]
    async with hosted(folder, asking("form"), server={}) as host:
        async with calling(host, path, call_id="c2", takes_questions=True) as cancelled:
            await waiting(host)
            await ask(host, "/calls/c2", "DELETE")
        left = (await ask(host, "/questions")).json()["questions"]

    assert json.loads(made.text)[0]["result"] == {"action": "decline"}
    assert none_left == left == []
    assert cancelled.answer.json()["code"] == "CALL_CANCELLED"


@pytest.mark.requirement("API-48")
async def test_a_call_that_takes_no_questions_is_asked_none(folder: Folder) -> None:
    async with hosted(folder, asking("fails")) as host:
        path = "/servers/asking/tools/echo"
        async with calling(host, path, call_id="c1") as made:
            pass
        without_id = await ask(host, f"{path}/call", "POST", json={"takes_questions": True})

    assert made.answer.json()["code"] == "TOOL_NEEDS_INPUT"
    assert without_id.status_code == 422


@pytest.mark.requirement("API-49")
async def test_nobody_sees_cancels_or_answers_the_calls_of_another_token(folder: Folder) -> None:
    async with hosted(folder, asking("form")) as host:
        mine, _ = host.tokens.create(scopes=frozenset({"read", "call"}))
        other, _ = host.tokens.create(scopes=frozenset({"read", "call"}))
        path = "/servers/asking/tools/echo"
        async with calling(host, path, mine, call_id="c1", takes_questions=True):
            question = await waiting(host, mine)
            address = f"/questions/{question['question_id']}"
            accepted = {"action": "accept", "content": {"name": "Eve", "age": 1}}
            seen = await ask(host, "/questions", token=other)
            calls = await ask(host, "/calls", token=other)
            answered = await ask(host, address, "POST", token=other, json=accepted)
            cancelled = await ask(host, "/calls/c1", "DELETE", token=other)
            of_owner = (await ask(host, "/questions")).json()["questions"]
            declined = await ask(host, address, "POST", token=mine, json={"action": "decline"})

    assert (seen.json()["questions"], calls.json()["calls"]) == ([], [])
    assert (answered.status_code, cancelled.status_code) == (404, 404)
    assert of_owner == [question]
    assert declined.status_code == 200
