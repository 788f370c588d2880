from __future__ import annotations

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import AskedClient, CallbackClient, Continuation
from discovery_engine.rpc.peer import RpcError

pytestmark = pytest.mark.anyio


async def _decline(method: str, params: JSONObject) -> JSONObject:
    return {"action": "decline", "asked": [method, params]}


@pytest.mark.requirement("LIB-27")
async def test_a_program_is_asked_through_its_callback() -> None:
    client = CallbackClient(_decline, capabilities={"elicitation": {}})

    answer = await client.ask("elicitation/create", {"message": "Sure?"})

    assert answer["asked"] == ["elicitation/create", {"message": "Sure?"}]


@pytest.mark.requirement("LIB-27")
async def test_a_client_without_a_callback_declares_nothing_and_cannot_be_asked() -> None:
    client = CallbackClient(capabilities={"elicitation": {}})

    with pytest.raises(RpcError, match="not supported"):
        await client.ask("elicitation/create", {})

    assert client.capabilities == {}


def test_calls_come_from_one_client_if_their_ids_or_their_objects_are_the_same() -> None:
    nameless = CallbackClient()

    assert CallbackClient(id="a").origin == CallbackClient(id="a").origin
    assert nameless.origin == nameless.origin
    assert nameless.origin != CallbackClient().origin
    assert CallbackClient(id="a").origin != CallbackClient(id="b").origin


def test_a_continuation_adds_the_state_only_if_the_server_gave_one() -> None:
    assert Continuation({"q": {}}).params == {"inputResponses": {"q": {}}}
    assert Continuation({}, "").params == {"inputResponses": {}, "requestState": ""}


async def test_a_client_that_is_asked_each_question_is_the_same_client_otherwise() -> None:
    async def answer(method: str, _: JSONObject) -> JSONObject:
        return {"method": method}

    notified: list[str] = []
    client = CallbackClient(
        answer,
        id="one",
        capabilities={"roots": {}},
        notify=lambda method, _: notified.append(method),
        log_level="info",
    )

    asked = AskedClient(client)
    asked.notify("notifications/message", {})

    assert (asked.id, asked.origin, asked.log_level) == ("one", client.origin, "info")
    assert asked.capabilities == {"roots": {}}
    assert await asked.ask("roots/list", {}) == {"method": "roots/list"}
    assert notified == ["notifications/message"]
    assert not asked.takes_input_required
