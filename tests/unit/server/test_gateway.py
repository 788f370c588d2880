from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest
from mcp import Client

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.protocol import LATEST_MODERN
from discovery_engine.tools.offering import OfferingKind
from discovery_server.gateway import ClientRequest, Gateway
from tests.factories import make_offering_entry, make_part
from tests.rows import rows
from tests.unit.server import sdk_client
from tests.unit.server.fakes import FakeEngine, make_engine, make_view

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


def connected(engine: FakeEngine, mode: str = "auto") -> AbstractAsyncContextManager[Client]:
    return sdk_client.connected(Gateway(engine), mode)


@ERAS
@pytest.mark.requirement("MET-1", "SRV-1")
async def test_the_meta_tools_are_listed_in_either_era(mode: str) -> None:
    async with connected(make_engine(), mode) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == [
        "list_mcp_servers",
        "search_tools",
        "list_tools",
        "get_tool_details",
        "execute_tool",
        "read_result",
    ]
    assert [tool.annotations.read_only_hint for tool in tools] == [True] * 4 + [False, True]
    assert tools[4].annotations.destructive_hint
    assert tools[4].annotations.open_world_hint


@pytest.mark.requirement("SCP-10")
@rows(
    ("method", "params"),
    [("resources/read", {"uri": "x:/page"}), ("prompts/get", {"name": "summary"})],
)
def test_a_request_about_what_is_not_shown_any_more_is_not_continued(
    method: str, params: JSONObject
) -> None:
    offered = (
        make_offering_entry("x:/page"),
        make_offering_entry("summary", kind=OfferingKind.PROMPT),
    )
    engine = FakeEngine(make_view(make_part("docs", offerings=offered)))
    gateway = Gateway(engine, is_of_owner=False)
    begun = ClientRequest(method, params, LATEST_MODERN)

    before = gateway.still_shows(begun, ["docs"])
    engine.view = make_view(make_part("docs"))

    assert before
    assert not gateway.still_shows(begun, ["docs"])
