"""Clients of each revision of the protocol are served as that revision has it."""

from __future__ import annotations

import json

import pytest

from discovery_engine.agent.definitions import META_TOOLS
from discovery_server.gateway import Gateway
from tests.unit.server.fakes import make_engine
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, call, request, served

pytestmark = pytest.mark.anyio

HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.requirement("SRV-1")
@pytest.mark.parametrize("version", HANDSHAKES)
async def test_a_client_that_shakes_hands_is_served_in_the_revision_that_it_asks_for(
    version: str,
) -> None:
    async with served(Gateway(make_engine())) as wire:
        greeting = await wire.ask(
            request(1, "initialize", **HANDSHAKE | {"protocolVersion": version})
        )
        await wire.send(INITIALIZED)
        listed = await wire.ask(request(2, "tools/list"))
        found = await wire.ask(call(3, "search_tools", query="issue"))

    assert greeting["result"]["protocolVersion"] == version
    assert [tool["name"] for tool in listed["result"]["tools"]] == [*META_TOOLS, "read_result"]
    assert "github:list_issues" in json.dumps(found["result"])
    assert "resultType" not in {**listed["result"], **found["result"]}


@pytest.mark.requirement("SRV-1")
async def test_a_client_that_does_not_shake_hands_is_served_in_the_new_era() -> None:
    async with served(Gateway(make_engine())) as wire:
        listed = await wire.ask(request(2, "tools/list", _meta=MODERN))
        found = await wire.ask(call(3, "search_tools", era="modern", query="issue"))

    assert [tool["name"] for tool in listed["result"]["tools"]] == [*META_TOOLS, "read_result"]
    assert "github:list_issues" in json.dumps(found["result"])
    assert {listed["result"]["resultType"], found["result"]["resultType"]} == {"complete"}
