"""What a client reads and writes when a server asks it something in the middle of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.rpc.peer import RpcError
from discovery_server.gateway import Gateway
from tests.rows import rows
from tests.unit.server.fakes import ISSUES, Call, make_engine, make_view
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, Wire, request, served

pytestmark = pytest.mark.anyio

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
NAME = {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {}}}
ANNA = {"action": "accept", "content": {"name": "Anna"}}

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
@rows(
    ("method", "params", "answer"),
    [
        ("elicitation/create", NAME, ANNA),
        ("elicitation/create", NAME, {"action": "decline"}),
        ("elicitation/create", {"mode": "url", "message": "m", "url": "https://x.org"}, ANNA),
        ("sampling/createMessage", {"messages": [], "maxTokens": 5}, {"role": "assistant"}),
        ("roots/list", {}, {"roots": [{"uri": "file:///a"}]}),
    ],
)
async def test_a_question_is_a_request_to_the_client_and_its_answer_goes_back_unchanged(
    method: str, params: JSONObject, answer: JSONObject
) -> None:
    async with served(gateway(asking((method, params)))) as wire:
        await opened(wire)
        asked = await wire.ask(execute(1, era="legacy"))
        done = await wire.ask({"jsonrpc": "2.0", "id": asked["id"], "result": answer})

    assert asked["method"] == method
    assert (done["id"], answer_of(done)) == (1, str([answer]))


@pytest.mark.requirement("QST-2")
async def test_an_error_of_the_client_goes_back() -> None:
    async def execution(call: Call) -> JSONObject:
        assert call.caller
        with pytest.raises(RpcError) as refused:
            await call.caller.ask("roots/list", {})
        return text((refused.value.code, refused.value.message))

    async with served(gateway(execution)) as wire:
        await opened(wire)
        asked = await wire.ask(execute(1, era="legacy"))
        error = {"code": -1, "message": "rejected by the user"}
        done = await wire.ask({"jsonrpc": "2.0", "id": asked["id"], "error": error})

    assert answer_of(done) == str((-1, "rejected by the user"))


@pytest.mark.requirement("QST-3")
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


@pytest.mark.requirement("QST-3")
async def test_a_question_that_its_server_withdraws_is_withdrawn_from_the_client() -> None:
    async def execution(call: Call) -> JSONObject:
        assert call.caller
        with anyio.move_on_after(0):
            await call.caller.ask("roots/list", {})
        return text("went on")

    async with served(gateway(execution)) as wire:
        await opened(wire)
        await wire.send(execute(1, era="legacy"))
        messages = [await wire.receive() for _ in range(3)]

    assert [one.get("method") for one in messages] == [
        "roots/list",
        "notifications/cancelled",
        None,
    ]


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
async def test_a_question_is_the_answer_and_the_call_goes_on_when_it_is_sent_again() -> None:
    async with served(gateway(asking(("elicitation/create", NAME)))) as wire:
        asked = await wire.ask(execute(1, era="modern"))
        done = await wire.ask(execute(2, era="modern", **responding(asked, ANNA)))

    [question] = asked["result"]["inputRequests"].values()
    assert asked["id"] == 1
    assert question["method"] == "elicitation/create"
    assert question["params"]["requestedSchema"] == NAME["requestedSchema"]
    assert (done["id"], answer_of(done)) == (2, str([ANNA]))
    assert done["result"]["resultType"] == "complete"


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


@pytest.mark.requirement("QST-10")
async def test_progress_goes_to_the_request_that_waits_now() -> None:
    async def execution(call: Call) -> JSONObject:
        assert call.caller
        assert call.on_progress
        await call.on_progress(1, None, None)
        await call.caller.ask("roots/list", {})
        await call.on_progress(2, None, None)
        return text("done")

    async with served(gateway(execution)) as wire:
        await wire.send(execute(1, era="modern", meta={"progressToken": "a"}))
        first = [await wire.receive() for _ in range(2)]
        again = responding(first[1], {})
        await wire.send(execute(2, era="modern", meta={"progressToken": "b"}, **again))
        second = [await wire.receive() for _ in range(2)]

    reported = [one["params"] for one in (first[0], second[0])]
    assert reported == [
        {"progressToken": "a", "progress": 1},
        {"progressToken": "b", "progress": 2},
    ]


@pytest.mark.requirement("QST-11")
@rows("change", [{"arguments": {"tool": "github:delete"}}, {"requestState": "x"}])
async def test_a_state_continues_the_very_call_for_which_it_was_given(change: JSONObject) -> None:
    async with served(gateway(asking(("roots/list", {})))) as wire:
        asked = await wire.ask(execute(1, era="modern"))
        refused = await wire.ask(execute(2, era="modern", **responding(asked, {}) | change))
        done = await wire.ask(execute(3, era="modern", **responding(asked, {})))

    assert refused["error"]["code"] == -32602
    assert refused["error"]["data"] == {"reason": "invalid_request_state"}
    assert answer_of(done) == "[{}]"


@pytest.mark.requirement("QST-11")
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


@pytest.mark.requirement("QST-12")
async def test_a_cancelled_call_is_cancelled_also_in_its_second_request() -> None:
    ended = anyio.Event()
    waits = anyio.Event()

    async def execution(call: Call) -> JSONObject:
        assert call.caller
        await call.caller.ask("roots/list", {})
        waits.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async with served(gateway(execution)) as wire:
        asked = await wire.ask(execute(1, era="modern"))
        await wire.send(execute(2, era="modern", **responding(asked, {})))
        await waits.wait()
        await wire.send(cancelled(2))
        await ended.wait()


@pytest.mark.requirement("QST-12")
async def test_a_client_that_is_gone_leaves_no_parked_call() -> None:
    ended = anyio.Event()

    async def execution(call: Call) -> JSONObject:
        assert call.caller
        try:
            return await call.caller.ask("roots/list", {})
        finally:
            ended.set()

    async with served(gateway(execution)) as wire:
        await wire.ask(execute(1, era="modern"))
        assert not ended.is_set()
        wire.hang_up()
        await ended.wait()


@pytest.mark.requirement("QST-12")
async def test_a_client_that_never_responds_gets_so_many_questions_and_can_go_on_calling() -> None:
    engine = make_engine(execution=asking(("roots/list", {})))
    async with served(Gateway(engine)) as wire:
        asked = [await wire.ask(execute(n, era="modern")) for n in range(32)]
        full = await wire.ask(execute(32, era="modern"))
        engine.execution = None
        other = await wire.ask(execute(33, era="modern"))
        engine.execution = asking(("roots/list", {}))
        done = await wire.ask(execute(34, era="modern", **responding(asked[0], {})))
        room = await wire.ask(execute(35, era="modern"))

    assert len({one["result"]["requestState"] for one in asked}) == 32
    assert "inputRequests" not in str(full)
    assert "too many calls wait" in str(full)
    assert "error" not in other
    assert answer_of(done) == "[{}]"
    assert room["result"]["resultType"] == "input_required"


@pytest.mark.requirement("QST-13")
async def test_a_server_of_this_era_asks_by_itself_and_gets_its_own_state_back() -> None:
    continued: list[Any] = []

    async def execution(call: Call) -> JSONObject:
        continued.append(call.continuation)
        if call.continuation:
            return text("done")
        question = {"method": "elicitation/create", "params": NAME}
        return {
            "resultType": "input_required",
            "inputRequests": {"who": question},
            "requestState": "its own \u2764 secret",
            "_meta": {"x": 1},
        }

    async with served(gateway(execution)) as wire:
        asked = await wire.ask(execute(1, era="modern"))
        done = await wire.ask(execute(2, era="modern", **responding(asked, ANNA)))

    assert list(asked["result"]["inputRequests"]) == ["who"]
    assert "asks: Your name?" in asked["result"]["inputRequests"]["who"]["params"]["message"]
    assert asked["result"]["_meta"]["x"] == 1
    assert "secret" not in asked["result"]["requestState"]
    assert continued[0] is None
    assert continued[1].params == {
        "inputResponses": {"who": ANNA},
        "requestState": "its own \u2764 secret",
    }
    assert answer_of(done) == "done"


@pytest.mark.requirement("QST-13")
async def test_responses_without_a_state_go_to_the_server() -> None:
    async def execution(call: Call) -> JSONObject:
        assert call.continuation
        return text(call.continuation.params)

    async with served(gateway(execution)) as wire:
        done = await wire.ask(execute(1, era="modern", inputResponses={"who": ANNA}))

    assert answer_of(done) == str({"inputResponses": {"who": ANNA}})


@pytest.mark.requirement("QST-1")
async def test_a_server_that_asks_by_itself_for_what_was_not_declared_is_an_error() -> None:
    async def execution(call: Call) -> JSONObject:
        question = {"method": "sampling/createMessage", "params": {"tools": []}}
        return {"resultType": "input_required", "inputRequests": {"q": question}}

    async with served(gateway(execution)) as wire:
        refused = await wire.ask(execute(1, era="modern"))

    assert refused["error"]["code"] == -32021
    assert refused["error"]["data"] == {"requiredCapabilities": {"sampling": {"tools": {}}}}


@pytest.mark.requirement("QST-13")
@rows("responses", [None, 7, {"q": 7}, []])
async def test_responses_that_are_none_are_refused(responses: Any) -> None:
    async with served(gateway(asking(("roots/list", {})))) as wire:
        asked = await wire.ask(execute(1, era="modern"))
        wrong = responding(asked, {}) | {"inputResponses": responses}
        answer = await wire.ask(execute(2, era="modern", **wrong))
        done = await wire.ask(execute(3, era="modern", **responding(asked, {})))

    if responses is None:  # as if there were none: it is asked again
        assert answer["result"]["resultType"] == "input_required"
    else:
        assert answer["error"]["code"] == -32602
        assert answer_of(done) == "[{}]"


@pytest.mark.requirement("QST-41")
async def test_the_engine_expects_a_client_that_began_with_a_handshake() -> None:
    engine = make_engine()

    async with served(Gateway(engine)) as wire:
        await opened(wire)

    assert engine.expected == [ALL]


@pytest.mark.requirement("QST-3")
async def test_a_question_waits_as_long_as_the_settings_say_and_is_withdrawn() -> None:
    async def execution(call: Call) -> JSONObject:
        assert call.caller
        try:
            return text(await call.caller.ask("roots/list", {}))
        except TimeoutError:
            return text("nobody answered")

    engine = make_engine(execution=execution)
    engine.view = make_view(ISSUES, server=ServeSettings(question_timeout=0.05))
    async with served(Gateway(engine)) as wire:
        await opened(wire)
        await wire.send(execute(1, era="legacy"))
        messages = [await wire.receive() for _ in range(3)]

    assert messages[1]["method"] == "notifications/cancelled"
    assert answer_of(messages[2]) == "nobody answered"
