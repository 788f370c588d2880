from __future__ import annotations

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import LIST_ROOTS, CallbackClient
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call, QuestionSettings
from discovery_engine.upstream.calls_in_flight import CallsInFlight

ROOTS = {"roots": [{"uri": "file:///here"}]}


async def give_roots(method: str, _: JSONObject) -> JSONObject:
    assert method == LIST_ROOTS
    return ROOTS


@pytest.mark.anyio
@pytest.mark.requirement("QST-53")
async def test_a_question_about_changed_roots_may_come_just_before_a_call_ends() -> None:
    server, settings_of = ServerName("s"), lambda _: QuestionSettings()
    client = CallbackClient(give_roots, capabilities={"roots": {"listChanged": True}})
    scheduler = FairScheduler()
    calls = CallsInFlight(server, settings_of, scheduler)
    with calls.including(Call(server, client, settings_of, scheduler)):
        calls.expect_roots_of(client)
        answer = calls.answer(LIST_ROOTS, {})

    assert callable(answer)
    assert await answer() == ROOTS


@pytest.mark.anyio
@pytest.mark.requirement("QST-53")
async def test_a_question_about_changed_roots_outlives_a_call_that_did_not_cause_it() -> None:
    asked = anyio.Event()

    async def give_late(method: str, params: JSONObject) -> JSONObject:
        if not asked.is_set():
            asked.set()
            await anyio.sleep_forever()
        return await give_roots(method, params)

    server, settings_of = ServerName("s"), lambda _: QuestionSettings()
    client = CallbackClient(give_late, capabilities={"roots": {"listChanged": True}})
    scheduler = FairScheduler()
    calls = CallsInFlight(server, settings_of, scheduler)
    answers: list[JSONObject] = []

    async def answer() -> None:
        work = calls.answer(LIST_ROOTS, {})
        assert callable(work)
        answers.append(await work())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            with calls.including(Call(server, client, settings_of, scheduler)):
                calls.expect_roots_of(client)
                tasks.start_soon(answer)
                await asked.wait()

    assert answers == [ROOTS]
