from __future__ import annotations

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import RpcError
from discovery_server.asking_calls import AskingCall, AskingCalls, InputRequired, ParkingLimits
from discovery_server.request_state import InvalidStateError

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("QST-44")]


class Output:
    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None: ...

    def notify(self, method: str, params: JSONObject) -> None: ...


async def ask_once(call: AskingCall) -> JSONObject:
    return await call.ask("roots/list", {})


async def ask_for_ever(call: AskingCall) -> JSONObject:
    while True:
        await call.ask("roots/list", {})


async def parked(calls: AskingCalls, client: str) -> InputRequired:
    outcome = await calls.begin(client, ask_once).attend(Output())
    assert isinstance(outcome, InputRequired)
    return outcome


async def test_a_call_that_nobody_continues_is_cancelled() -> None:
    calls, ended = AskingCalls(), anyio.Event()

    async def work(call: AskingCall) -> JSONObject:
        try:
            return await call.ask("roots/list", {})
        finally:
            ended.set()

    call = calls.begin("anna", work)
    asked = await call.attend(Output())
    assert isinstance(asked, InputRequired)
    call.park(0)
    with anyio.fail_after(60):
        await ended.wait()
        while calls:
            await anyio.lowlevel.checkpoint()

    with pytest.raises(InvalidStateError):
        calls.parked(asked.call, asked.round)


async def test_each_client_has_its_share_and_all_together_a_limit() -> None:
    calls = AskingCalls(ParkingLimits(calls=5, calls_of_client=3))
    for _ in range(3):
        await parked(calls, "anna")
    with pytest.raises(RpcError, match="3 of this one"):
        await parked(calls, "anna")
    for _ in range(2):
        await parked(calls, "berta")
    with pytest.raises(RpcError, match="too many calls"):
        await parked(calls, "carla")

    await calls.close()

    assert len(calls) == 0


async def test_a_call_that_asks_without_end_is_ended() -> None:
    calls = AskingCalls()
    call = calls.begin("anna", ask_for_ever)

    for _ in range(64):
        asked = await call.attend(Output())
        assert isinstance(asked, InputRequired)
        call.respond({key: {} for key in asked.requests})
    with pytest.raises(RpcError, match="more than 64 times"):
        await call.attend(Output())

    assert len(calls) == 0
