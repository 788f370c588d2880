from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.peer import (
    ConnectionClosedError,
    RequestId,
    RequestTimeout,
    RequestTimeoutError,
    RpcError,
)
from discovery_server.client_connection import ClientConnection
from discovery_server.gateway import Gateway
from tests.rows import rows
from tests.unit.server.fakes import make_engine

pytestmark = pytest.mark.anyio

LONG = RequestTimeout(60)
QUESTION: JSONObject = {"message": "Which one?", "requestedSchema": {"type": "object"}}


class ListStream:
    """A `ClientStream` that keeps what is written."""

    is_congested = False

    def __init__(self) -> None:
        self.messages: list[JSONObject] = []
        self.begun = 0
        self.ended: list[tuple[RequestId, bool]] = []

    def write(self, message: JSONObject) -> None:
        self.messages.append(message)

    async def drain(self) -> None:
        """Never congested."""

    def begin(self) -> None:
        self.begun += 1

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        self.ended.append((request_id, is_cancelled))


class Asking:
    """A connection that has sent its client one request."""

    def __init__(self) -> None:
        self.connection = ClientConnection(Gateway(make_engine()))
        self.stream = ListStream()
        self.outcome: JSONObject | Exception | None = None

    async def ask(self, limit: RequestTimeout = LONG) -> None:
        try:
            self.outcome = await self.connection.request(
                self.stream, "elicitation/create", QUESTION, timeout=limit
            )
        except (RpcError, TimeoutError) as error:
            self.outcome = error

    def receive(self, message: JSONObject, stream: ListStream | None = None) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.connection.receive(line, stream or ListStream())


@asynccontextmanager
async def asking(limit: RequestTimeout = LONG) -> AsyncIterator[Asking]:
    made = Asking()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.ask, limit)
            await anyio.wait_all_tasks_blocked()
            yield made
        await made.connection.close()


async def test_a_request_to_the_client_is_written_to_the_stream_of_its_cause() -> None:
    async with asking() as made:
        [sent] = made.stream.messages
        made.receive({"id": sent["id"], "result": {"action": "accept", "content": {}}})

    assert (sent["method"], sent["params"]) == ("elicitation/create", QUESTION)
    assert made.outcome == {"action": "accept", "content": {}}


async def test_the_clients_answer_may_come_with_any_message_and_its_id_as_a_string() -> None:
    async with asking() as made:
        other = ListStream()
        made.receive({"id": str(made.stream.messages[0]["id"]), "result": {}}, other)

    assert (made.outcome, other.messages) == ({}, [])


@rows(
    ("answer", "code"),
    [({"error": {"code": -1, "message": "no"}}, -1), ({"result": "not an object"}, -32700)],
    ids=["an error", "malformed"],
)
async def test_an_answer_without_a_result_is_an_error(answer: JSONObject, code: int) -> None:
    async with asking() as made:
        made.receive({"id": made.stream.messages[0]["id"], **answer})

    assert isinstance(made.outcome, RpcError)
    assert made.outcome.code == code


async def test_a_request_without_an_answer_in_time_is_cancelled() -> None:
    async with asking(RequestTimeout(0.001)) as made:
        pass

    [sent, cancelled] = made.stream.messages
    assert isinstance(made.outcome, RequestTimeoutError)
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == sent["id"]


async def test_closing_the_connection_ends_its_requests_to_the_client() -> None:
    async with asking() as made:
        await made.connection.close()

    assert isinstance(made.outcome, ConnectionClosedError)
    assert len(made.stream.messages) == 1


async def test_unexpected_answers_of_the_client_are_ignored() -> None:
    async with asking() as made:
        number = made.stream.messages[0]["id"]
        for message in ({"id": 99, "result": {}}, {"id": None, "result": {}}, {"result": {}}):
            made.receive(message)
        made.receive({"id": number, "result": {"first": 1}})
        made.receive({"id": number, "result": {"second": 2}})

    assert made.outcome == {"first": 1}
    assert len(made.stream.messages) == 1


async def test_a_client_that_answers_nothing_gets_a_bounded_number_of_requests() -> None:
    made, refused = Asking(), []

    async def ask() -> None:
        try:
            await made.connection.request(made.stream, "roots/list", timeout=LONG)
        except ConnectionClosedError:
            pass
        except RpcError as error:
            refused.append(error.message)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(300):
                tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            await made.connection.close()

    assert (len(made.stream.messages), len(refused)) == (256, 44)


async def test_a_stream_is_held_open_for_a_call_until_its_answer() -> None:
    made = Asking()
    call = {"name": "list_mcp_servers", "arguments": {}}
    opening: JSONObject = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    with anyio.fail_after(60):
        made.receive({"id": 1, "method": "initialize", "params": opening}, made.stream)
        made.receive({"method": "notifications/initialized"}, made.stream)
        made.receive({"id": "a", "method": "tools/call", "params": call}, made.stream)
        before = list(made.stream.ended)
        while not made.stream.ended:
            await anyio.wait_all_tasks_blocked()

    assert (before, made.stream.begun) == ([], 1)
    assert made.stream.ended == [("a", False)]
    assert [one["id"] for one in made.stream.messages] == [1, "a"]


async def test_a_stream_is_released_by_a_cancelled_call_without_an_answer() -> None:
    made = Asking()
    call = {"name": "list_mcp_servers", "arguments": {}}
    with anyio.fail_after(60):
        made.receive({"method": "notifications/initialized"}, made.stream)
        made.receive({"id": "a", "method": "tools/call", "params": call}, made.stream)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "a"}}
        made.receive(cancel, made.stream)
        while not made.stream.ended:
            await anyio.wait_all_tasks_blocked()

    assert made.stream.ended == [("a", True)]
    assert made.stream.messages == []
