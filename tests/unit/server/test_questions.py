"""What a client reads and writes when a server asks it something in the middle of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import RpcError
from discovery_server.gateway import Gateway
from tests.unit.server.fakes import Call, make_engine
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, Wire, request, served

pytestmark = pytest.mark.anyio

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

Execution = Callable[[Call], Awaitable[JSONObject]]


def text(value: object) -> JSONObject:
    return {"content": [{"type": "text", "text": str(value)}]}


def asking(*questions: tuple[str, JSONObject]) -> Execution:
    """A tool that asks one question after another, and returns the answers."""

    async def execution(call: Call) -> JSONObject:
        assert call.caller
        try:
            return text([await call.caller.ask(method, params) for method, params in questions])
        except RpcError as error:
            return text(error)

    return execution


def gateway(execution: Execution) -> Gateway:
    return Gateway(make_engine(execution=execution))


def execute(number: int, *, era: str, meta: Any = None, **params: Any) -> JSONObject:
    arguments = {"tool": "github:list_issues"}
    envelope = {"io.modelcontextprotocol/clientCapabilities": ALL}
    whole = (MODERN | envelope if era == "modern" else {}) | (meta or {})
    params = {"name": "execute_tool", "arguments": arguments, "_meta": whole} | params
    return request(number, "tools/call", **params)


async def opened(wire: Wire, capabilities: JSONObject = ALL, **params: Any) -> None:
    initialize = request(0, "initialize", **HANDSHAKE | {"capabilities": capabilities} | params)
    await wire.ask(initialize)
    await wire.send(INITIALIZED)


def answer_of(message: JSONObject) -> str:
    answer: str = message["result"]["content"][0]["text"]
    return answer


# -- handshake era ---------------------------------------------------------------------------------


@pytest.mark.requirement("QST-2")
async def test_a_call_that_is_cancelled_withdraws_its_question() -> None:
    async with served(gateway(asking(("roots/list", {})))) as wire:
        await opened(wire)
        asked = await wire.ask(execute(1, era="legacy"))
        await wire.send(cancelled(1))
        withdrawn = await wire.receive()
        late = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
        await wire.send(late)
        pong = await wire.ask(request(2, "ping"))

    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == asked["id"]
    assert pong == {"jsonrpc": "2.0", "id": 2, "result": {}}


def cancelled(number: int) -> JSONObject:
    params = {"requestId": number}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


# -- since 2026-07-28 ------------------------------------------------------------------------------


def responding(message: JSONObject, *answers: Any) -> JSONObject:
    """The params with which a client continues a call."""
    result = message["result"]
    assert result["resultType"] == "input_required"
    keys = result["inputRequests"]
    responses = dict(zip(keys, answers, strict=False))
    return {"inputResponses": responses, "requestState": result["requestState"]}


@pytest.mark.requirement("QST-10")
async def test_a_call_may_ask_in_several_rounds() -> None:
    questions = [("roots/list", {"round": n}) for n in range(5)]
    async with served(gateway(asking(*questions))) as wire:
        message = await wire.ask(execute(1, era="modern"))
        for number in range(5):
            again = execute(2 + number, era="modern", **responding(message, {"roots": [number]}))
            message = await wire.ask(again)

    assert answer_of(message) == str([{"roots": [n]} for n in range(5)])


@pytest.mark.requirement("QST-10")
async def test_several_questions_at_once_are_one_round_and_what_is_missing_is_asked_again() -> None:
    answers: dict[int, JSONObject] = {}

    async def execution(call: Call) -> JSONObject:
        async def ask(number: int) -> None:
            assert call.caller
            answers[number] = await call.caller.ask("roots/list", {"number": number})

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(ask, number)
        return text("done")

    async with served(gateway(execution)) as wire:
        first = await wire.ask(execute(1, era="modern"))
        partly = responding(first, {"n": 0})
        partly["inputResponses"]["never asked"] = {"n": 9}
        second = await wire.ask(execute(2, era="modern", **partly))
        done = await wire.ask(execute(3, era="modern", **responding(second, {"n": 1}, {"n": 2})))

    assert len(first["result"]["inputRequests"]) == 3
    assert list(second["result"]["inputRequests"]) == list(first["result"]["inputRequests"])[1:]
    assert answers == {n: {"n": n} for n in range(3)}
    assert answer_of(done) == "done"


@pytest.mark.requirement("QST-20")
async def test_a_state_is_used_once() -> None:
    questions = [("roots/list", {}), ("roots/list", {})]
    async with served(gateway(asking(*questions))) as wire:
        first = await wire.ask(execute(1, era="modern"))
        second = await wire.ask(execute(2, era="modern", **responding(first, {"n": 1})))
        replayed = await wire.ask(execute(3, era="modern", **responding(first, {"n": 3})))
        done = await wire.ask(execute(4, era="modern", **responding(second, {"n": 2})))
        ended = await wire.ask(execute(5, era="modern", **responding(second, {"n": 2})))

    assert "error" in replayed
    assert answer_of(done) == str([{"n": 1}, {"n": 2}])
    assert "error" in ended
