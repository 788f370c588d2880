"""Work that is within one gateway, asked for at another one: passed on through the database."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import psycopg
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import RpcError
from discovery_engine.store.backends import open_database
from discovery_server.access_tokens import AccessTokens
from discovery_server.relay import Relay
from discovery_server.request_state import OtherGatewayError, StateSealer, call_identity
from tests.fleet.fleet import META, TOKEN, Fleet, Gateway, open_fleet, wait_until
from tests.postgres import PostgresServer

SERVERS = Path(__file__).parents[1] / "servers"
DECLINED = {"action": "decline"}
ACCEPTED = {"action": "accept", "content": {"sure": True}}


def program(file: str, mode: str, era: str) -> JSONObject:
    return {"command": sys.executable, "args": [str(SERVERS / file), mode, "--era", era]}


ENTRIES = {
    "asking": program("asking_server.py", "asks", "legacy"),
    "again": program("asking_server.py", "asks_again", "legacy"),
    "working": program("asking_server.py", "asks_and_works", "legacy"),
    "silent": program("task_server.py", "silent", "modern"),
    "works": program("task_server.py", "works", "modern"),
    "asks": program("task_server.py", "asks", "modern"),
    "endless": program("task_server.py", "endless", "modern"),
}


@pytest.fixture
def fleet(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Fleet]:
    with open_fleet(tmp_path, postgres_server.create_database()) as opened:
        opened.configure(ENTRIES, views={"narrow": {"servers": ["asking"]}})
        yield opened


def started(fleet: Fleet, *names: str) -> list[Gateway]:
    gateways = [fleet.start_gateway(name) for name in names]
    for gateway in gateways:
        gateway.wait_healthy()
    return gateways


def asked(
    gateway: Gateway, server: str = "asking", **options: Any
) -> tuple[JSONObject, JSONObject]:
    """The call of a tool whose server has asked in the middle of it, and what continues it."""
    call = {"name": "execute_tool", "arguments": {"tool": f"{server}:echo"}}
    return call, declined(gateway.send("tools/call", call, **options)["result"])


def declined(result: JSONObject) -> JSONObject:
    """What continues a call that has asked one question."""
    [key] = result["inputRequests"]
    return {"requestState": result["requestState"], "inputResponses": {key: DECLINED}}


def continued(gateway: Gateway, call: JSONObject, state: JSONObject, **options: Any) -> JSONObject:
    return gateway.send("tools/call", {**call, **state}, **options)


def task_of(gateway: Gateway, server: str) -> str:
    found: str = gateway.call("execute_tool", tool=f"{server}:work")["taskId"]
    return found


def about(gateway: Gateway, method: str, task: str, **options: Any) -> JSONObject:
    answers = {"inputResponses": {"sure": ACCEPTED}} if method == "update" else {}
    return gateway.send(f"tasks/{method}", {"taskId": task, **answers}, **options)


def listed(gateway: Gateway, token: str) -> JSONObject:
    return gateway.send("tools/list", {}, token=token)


def rows(fleet: Fleet) -> int:
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        [count] = connection.execute("SELECT count(*) FROM discovery.relayed_requests").fetchone()
    return count


@pytest.mark.requirement("SRV-84")
def test_a_question_in_the_middle_of_a_call_is_answered_at_another_gateway_once(
    fleet: Fleet,
) -> None:
    here, there = started(fleet, "here", "there")
    call, state = asked(here)

    said = continued(there, call, state)
    again = [continued(one, call, state) for one in (there, here)]

    assert "decline" in said["result"]["content"][0]["text"], said
    assert [one["error"]["data"]["reason"] for one in again] == ["invalid_request_state"] * 2
    wait_until(lambda: rows(fleet) == 0, "nothing is left in the database")


@pytest.mark.requirement("SRV-84", "QST-20")
def test_each_round_of_a_call_that_asks_again_is_answered_at_any_gateway(fleet: Fleet) -> None:
    here, there = started(fleet, "here", "there")
    call, state = asked(here, "again")
    used = [state]
    for gateway in (there, here, there, there, here):
        used.append(declined(continued(gateway, call, used[-1])["result"]))

    again = [continued(there, call, one)["error"]["data"]["reason"] for one in used[:-1]]

    assert again == ["invalid_request_state"] * 5
    assert "inputRequests" in continued(there, call, used[-1])["result"]


@pytest.mark.requirement("SRV-84")
def test_progress_and_log_messages_of_a_call_come_by_the_gateway_that_continues_it(
    fleet: Fleet,
) -> None:
    here, there = started(fleet, "here", "there")
    wanted = {"progressToken": 7, "io.modelcontextprotocol/logLevel": "info"}
    call, state = asked(here, "working", meta=wanted)

    *before, answer = there.messages("tools/call", {**call, **state}, meta=wanted)

    progress = [one["params"] for one in before if one["method"] == "notifications/progress"]
    assert [one["progress"] for one in progress] == list(range(1, 51))
    assert {one["progressToken"] for one in progress} == {7}
    logged = [one["params"]["data"] for one in before if one["method"] == "notifications/message"]
    assert logged == ["begun", "done"]
    assert "decline" in answer["result"]["content"][0]["text"], answer
    wait_until(lambda: rows(fleet) == 0, "nothing is left in the database")


@pytest.mark.requirement("SRV-84")
def test_a_client_that_leaves_leaves_nothing_in_the_database(fleet: Fleet) -> None:
    here, there = started(fleet, "here", "there")
    task = task_of(here, "silent")

    with ThreadPoolExecutor() as threads:
        asking = threads.submit(about, there, "get", task, timeout=10.0)
        wait_until(lambda: rows(fleet) == 1, "the request is passed on")
        with pytest.raises(httpx2.ReadTimeout):
            asking.result()
    wait_until(lambda: rows(fleet) == 0, "it is withdrawn")


@pytest.mark.requirement("SRV-84")
def test_a_client_that_asks_at_many_gateways_locks_nobody_out_of_the_one_with_its_work(
    fleet: Fleet,
) -> None:
    here, *others = started(fleet, "here", "there", "elsewhere")
    silent = task_of(here, "silent")
    call, state = asked(here, path="/mcp/narrow")

    with ThreadPoolExecutor(40) as threads:
        asking = [threads.submit(about, others[n % 2], "get", silent) for n in range(40)]
        wait_until(lambda: sum(one.done() for one in asking) == 8, "what is beyond is refused")
        said = continued(others[0], call, state, path="/mcp/narrow")
        refused = [one.result()["error"]["message"] for one in asking if one.done()]
        for gateway in others:
            gateway.kill()

    assert "decline" in said["result"]["content"][0]["text"], said
    assert all("(32 of this client)" in one for one in refused), refused


@pytest.mark.requirement("TSK-26")
def test_a_task_of_one_gateway_is_read_answered_and_cancelled_at_another_one(fleet: Fleet) -> None:
    here, there = started(fleet, "here", "there")
    asks, endless = task_of(here, "asks"), task_of(here, "endless")

    asked = about(there, "get", asks)["result"]
    answered = about(there, "update", asks)
    read = about(there, "get", asks)["result"]
    at_home = about(here, "get", asks)["result"]
    cancelled = about(there, "cancel", endless)
    log = json.loads(here.call("execute_tool", tool="endless:log")["content"][0]["text"])

    assert asked["status"] == "input_required"
    assert asked["inputRequests"]["sure"]["params"]["message"].startswith("asks asks: ")
    assert "result" in answered, answered
    assert read["status"] == at_home["status"] == "completed"
    assert "accept" in read["result"]["content"][0]["text"]
    assert read["taskId"] == asks
    assert "result" in cancelled, cancelled
    assert log == [["tasks/cancel", "task-1"]]


@pytest.mark.requirement("TSK-30", "TSK-26")
def test_a_task_does_not_exist_for_another_token_or_view_at_any_gateway(fleet: Fleet) -> None:
    values = AccessTokens(fleet.folder / "there" / "data" / "tokens.json").create()
    here, there = started(fleet, "here", "there")
    made = json.loads(fleet.run("--json", "token", "create").stdout)["token"]
    wait_until(lambda: all("result" in listed(one, made) for one in (here, there)), "it is taken")
    task = task_of(here, "works")

    refused = [
        about(gateway, method, task, token=made)
        for gateway in (here, there)
        for method in ("get", "update", "cancel")
    ]
    refused.append(about(there, "get", task, token=values[0]))  # which `here` does not know
    refused += [about(one, "get", task, path="/mcp/narrow") for one in (here, there)]
    log = json.loads(here.call("execute_tool", tool="works:log")["content"][0]["text"])

    assert {one["error"]["code"] for one in refused} == {-32602}
    assert len({one["error"]["message"] for one in refused}) == 1
    assert "TASK_NOT_FOUND" in refused[0]["error"]["message"]
    assert log == []
    assert about(there, "get", task)["result"]["status"] == "working"


@pytest.mark.requirement("SRV-84", "TSK-26")
def test_a_gateway_that_was_killed_is_named_and_nobody_waits_for_it_for_long(fleet: Fleet) -> None:
    here, there = started(fleet, "here", "there")
    call, state = asked(here)
    task = task_of(here, "endless")
    here.kill()

    refused = [continued(there, call, state), about(there, "get", task)]

    assert [one["error"]["data"] for one in refused] == [{"reason": "other_gateway"}] * 2
    assert "another gateway (here), which does not answer" in refused[0]["error"]["message"]
    assert "call the tool again" in refused[1]["error"]["message"]
    wait_until(lambda: rows(fleet) == 0, "nothing is left in the database")


@pytest.mark.requirement("TSK-27")
def test_the_changes_of_a_task_are_followed_at_another_gateway(fleet: Fleet) -> None:
    here, there = started(fleet, "here", "there")
    task = task_of(here, "works")

    messages = there.notified(
        lambda one: one["params"].get("status") == "completed", taskIds=[task, "no-task"]
    )

    assert messages[0]["params"]["notifications"]["taskIds"] == [task]
    assert messages[-1]["params"]["taskId"] == task


@pytest.mark.requirement("TSK-26")
def test_the_handle_of_a_task_says_which_process_has_it_and_nothing_of_its_server(
    fleet: Fleet,
) -> None:
    here, there = started(fleet, "here", "there")
    first, second, other = task_of(here, "works"), task_of(here, "works"), task_of(there, "works")

    process = re.fullmatch(r"[\w-]{32}\.([0-9a-f]{16})", first)[1]

    assert second.endswith(f".{process}")
    assert not other.endswith(f".{process}")
    assert len({one[:32] for one in (first, second, other)}) == 3


@pytest.mark.requirement("SRV-84")
@pytest.mark.anyio
async def test_a_request_that_is_passed_on_begins_no_call_whoever_has_the_key(fleet: Fleet) -> None:
    [here] = await anyio.to_thread.run_sync(started, fleet, "here")
    task = await anyio.to_thread.run_sync(task_of, here, "works")
    client = {"user": "token 1", "mark": sha256(TOKEN.encode()).hexdigest(), "view": None}
    call = {"name": "execute_tool", "arguments": {"tool": "works:log"}}
    with closing(open_database(fleet.url, timeout=60.0)) as registry:
        sealer, process = StateSealer(registry.gateways.sealing_key), task.rpartition(".")[2]
        relay, owner = Relay(registry.gateways, sealer), OtherGatewayError(process, is_task=True)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(relay.run, never)

                async def asked(method: str, params: JSONObject) -> JSONObject:
                    request = {"client": client, "method": method, "params": params}
                    return await relay.ask(owner, request, "token 1")

                read = await asked("tasks/get", {"taskId": task, "_meta": META})
                with pytest.raises(RpcError, match="Invalid or expired requestState"):
                    await asked("tools/call", {**call, "_meta": META})
                with pytest.raises(RpcError, match="Invalid or expired requestState"):
                    await asked("tools/list", {"_meta": META})
                identity = call_identity("token 1", "tools/call", call)
                for forged in ({"state": "x"}, {"process": process, "state": "x"}):
                    state = sealer.seal(forged, identity, lifetime=600.0)
                    with pytest.raises(RpcError, match="Invalid or expired requestState"):
                        await asked("tools/call", {**call, "requestState": state, "_meta": META})
                tasks.cancel_scope.cancel()

    assert read["status"] == "working"


async def never(request: JSONObject, *_: object) -> JSONObject:
    raise AssertionError(request)
