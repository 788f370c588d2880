"""The log messages that a call causes, as its client gets them."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from discovery_server.gateway import Gateway
from tests.rows import rows
from tests.unit.server.fakes import Call, make_engine
from tests.unit.server.test_questions import answer_of, execute, gateway, opened, text
from tests.unit.server.wire import request, served

pytestmark = pytest.mark.anyio

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVEL = "io.modelcontextprotocol/logLevel"


async def wanted(call: Call) -> JSONObject:
    assert call.caller
    return text(call.caller.log_level)


async def logged(call: Call) -> JSONObject:
    assert call.caller
    call.caller.notify("notifications/message", {"level": "error", "data": "one"})
    return text("done")


@pytest.mark.requirement("NTF-20")
@rows("level", LEVELS)
async def test_a_client_sets_the_level_of_its_messages(level: str) -> None:
    async with served(gateway(wanted)) as wire:
        await opened(wire)
        before = await wire.ask(execute(1, era="legacy"))
        answer = await wire.ask(request(2, "logging/setLevel", level=level))
        after = await wire.ask(execute(3, era="legacy"))

    assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}
    assert (answer_of(before), answer_of(after)) == ("info", level)


@pytest.mark.requirement("NTF-20")
@rows("level", ["loud", "", None, 3, "INFO"])
async def test_another_level_is_refused_and_the_last_one_stays(level: Any) -> None:
    async with served(gateway(wanted)) as wire:
        await opened(wire)
        await wire.ask(request(1, "logging/setLevel", level="error"))
        refused = await wire.ask(request(2, "logging/setLevel", level=level))
        after = await wire.ask(execute(3, era="legacy"))

    assert refused["error"]["code"] == -32602
    assert answer_of(after) == "error"


@pytest.mark.requirement("NTF-20")
async def test_since_2026_07_28_each_request_says_its_level_and_gets_none_without() -> None:
    async with served(gateway(wanted)) as wire:
        answers = [await wire.ask(execute(1, era="modern", meta={LEVEL: "alert"}))]
        answers.append(await wire.ask(execute(2, era="modern")))
        gone = await wire.ask(request(3, "logging/setLevel", level="info", **envelope()))

    assert [answer_of(one) for one in answers] == ["alert", "None"]
    assert gone["error"]["code"] == -32601


def envelope() -> JSONObject:
    return {"_meta": execute(0, era="modern")["params"]["_meta"]}


@pytest.mark.requirement("NTF-21")
@rows("era", ["legacy", "modern"])
async def test_a_message_comes_before_the_answer_of_the_call_that_caused_it(era: str) -> None:
    async with served(gateway(logged)) as wire:
        if era == "legacy":
            await opened(wire)
        await wire.send(execute(1, era=era))
        messages = [await wire.receive() for _ in range(2)]

    assert messages[0]["params"] == {"level": "error", "data": "one"}
    assert answer_of(messages[1]) == "done"


@pytest.mark.requirement("NTF-21")
async def test_nothing_is_written_for_a_call_that_is_answered() -> None:
    callers: list[Any] = []

    async def execution(call: Call) -> JSONObject:
        callers.append(call.caller)
        return text("done")

    async with served(gateway(execution)) as wire:
        await opened(wire)
        await wire.ask(execute(1, era="legacy"))
        callers[0].notify("notifications/message", {"level": "error", "data": "late"})
        pong = await wire.ask(request(2, "ping"))

    assert pong["id"] == 2


@pytest.mark.requirement("NTF-21")
async def test_a_call_that_logs_without_end_writes_a_bounded_number_of_messages() -> None:
    async def execution(call: Call) -> JSONObject:
        assert call.caller
        for number in range(5_000):
            call.caller.notify("notifications/message", {"level": "info", "data": number})
        return text("done")

    async with served(gateway(execution)) as wire:
        await opened(wire)
        await wire.send(execute(1, era="legacy"))
        received = [await wire.receive()]
        while "id" not in received[-1]:
            received.append(await wire.receive())

    assert len(received) <= 1_001


@pytest.mark.requirement("NTF-22")
async def test_the_capabilities_say_that_there_are_log_messages() -> None:
    async with served(Gateway(make_engine())) as wire:
        probe = await wire.ask(request(1, "server/discover", **envelope()))

    assert probe["result"]["capabilities"]["logging"] == {}
