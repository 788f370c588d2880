"""Calls over the API that report progress, ask questions, and are cancelled: specs/api.md."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.api_server import OWN, Api, received, served, until
from tests.engines import Folder, good, program
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


@pytest.mark.requirement("API-45")
async def test_a_call_with_an_id_reports_progress_events(folder: Folder, tmp_path: Path) -> None:
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


SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
LINES = """
import sys
print(*range(30), sys.argv[-1], sep="\\n", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.requirement("API-16")
async def test_the_last_lines_of_stderr_are_shown_without_secrets(folder: Folder) -> None:
    failing = program("bad", sys.executable, "-c", LINES, "--token", SECRET)
    async with served(folder, failing, good()) as api:
        shown = await api.get("/servers/bad/stderr", lines=3)
        none = await api.get("/servers/good/stderr")
        unknown = await api.ask("/servers/nobody/stderr")
        beyond = await api.ask("/servers/bad/stderr?lines=21")

    assert shown == {"server": "bad", "lines": ["28", "29", "••••"]}
    assert none["lines"] == []
    assert (unknown.status_code, beyond.status_code) == (404, 422)


@pytest.mark.requirement("API-16")
@pytest.mark.requirement("API-7")
async def test_the_log_comes_in_pages_with_how_many_there_are(folder: Folder) -> None:
    async with served(folder) as api:
        for number in range(5):
            body: dict[str, Any] = {"arguments": {"text": str(number)}}
            await api.ask("/servers/good/tools/echo/call", "POST", json=body)
        pages, before = [], None
        while True:
            query = {"kind": "call", "limit": 2, "total": True}
            page = await api.get("/logs", **query, **({"before": before} if before else {}))
            pages.append([entry["arguments"]["text"] for entry in page["entries"]])
            before = page["next_before"]
            if before is None:
                break
        uncounted = await api.get("/logs", kind="call")

    assert pages == [["3", "4"], ["1", "2"], ["0"]]
    assert page["total"] == 5
    assert (uncounted["total"], uncounted["next_before"]) == (None, None)


@pytest.mark.requirement("API-10")
async def test_a_client_gets_the_state_and_then_numbered_events(folder: Folder) -> None:
    async with served(folder, good()) as api, api.connect() as socket:
        state = await received(socket)
        for _ in range(3):
            await api.engine.execute("good", "echo", {"text": "hello"})
        calls, numbers = [], []
        while len(calls) < 3:
            frame = await received(socket)
            numbers += [event["sequence"] for event in frame["events"]]
            calls += [event for event in frame["events"] if event["type"] == "tool_called"]

    assert state["type"] == "state"
    assert [server["name"] for server in state["servers"]] == ["good"]
    assert numbers == [state["sequence"] + 1 + i for i in range(len(numbers))]
    assert (calls[0]["server"], calls[0]["tool"], calls[0]["outcome"]) == ("good", "echo", "ok")
    assert "hello" not in json.dumps(calls)


@pytest.mark.thorough
@pytest.mark.requirement("API-10")
async def test_a_client_that_was_away_gets_what_it_missed(folder: Folder) -> None:
    async with served(folder, good()) as api:
        async with api.connect() as socket:
            state = await received(socket)
            await api.engine.execute("good", "echo", {"text": "1"})
            seen = (await until(socket, "tool_called"))["sequence"]
        await api.engine.execute("good", "environment", {})
        async with api.connect(f"?stream={state['stream']}&after={seen}") as again:
            missed = await until(again, "tool_called")
        for query in ("?stream=another&after=1", "?after=99999", "?after=nonsense"):
            async with api.connect(query) as lost:
                assert (await received(lost))["type"] == "state"

    assert (missed["tool"], missed["sequence"]) == ("environment", seen + 1)


@pytest.mark.thorough
@pytest.mark.requirement("API-14")
async def test_a_code_opens_one_session_whose_cookie_no_script_reads(folder: Folder) -> None:
    async with served(folder, good()) as api:
        code = api.service.new_link("http://x").partition("=")[2]
        url = f"{api.origin}/session"
        first = await api.http.post(url, json={"code": code}, headers=api.own())
        api.http.cookies.clear()
        second = await api.http.post(url, json={"code": code}, headers=api.own())
        wrong = await api.http.post(url, json={"code": 5}, headers=api.own())
        by_token = await api.http.post(
            url, headers=api.own(authorization=f"Bearer {OWN}"), content=b""
        )

    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert [one.status_code for one in (second, wrong)] == [401, 401]
    assert by_token.status_code == 204


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


@pytest.mark.requirement("API-10")
async def test_messages_of_servers_are_events_without_secrets(folder: Folder) -> None:
    server = fault_server("progress", name="steps")
    async with served(folder, server) as api, api.connect() as socket:
        await received(socket)
        body = {"arguments": {"text": "x"}, "call_id": "c1"}
        await api.ask("/servers/steps/tools/echo/call", "POST", json=body)
        event = await until(socket, "server_notification")

    assert (event["server"], event["level"]) == ("steps", "warning")
    assert "all done" in event["text"]
    assert "hunter2" not in json.dumps(event)
