from __future__ import annotations

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.rpc.messages import RpcError

pytestmark = pytest.mark.anyio


async def _decline(method: str, params: JSONObject) -> JSONObject:
    return {"action": "decline", "asked": [method, params]}


@pytest.mark.requirement("LIB-24")
async def test_a_program_is_asked_through_its_callback() -> None:
    client = CallbackClient(_decline, capabilities={"elicitation": {}})

    answer = await client.ask("elicitation/create", {"message": "Sure?"})

    assert answer["asked"] == ["elicitation/create", {"message": "Sure?"}]


@pytest.mark.requirement("LIB-24")
async def test_a_client_without_a_callback_declares_nothing_and_cannot_be_asked() -> None:
    client = CallbackClient(capabilities={"elicitation": {}})

    with pytest.raises(RpcError, match="not supported"):
        await client.ask("elicitation/create", {})

    assert client.capabilities == {}
