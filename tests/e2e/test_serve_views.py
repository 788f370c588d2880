"""Modes and views of `discovery serve`, before the SDK's client on both transports."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest
from mcp import Client, MCPError

from tests.e2e.serving import Home, fault_entry

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

ERAS = pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.matrix)])
VIEWS = {
    "one": {"servers": ["one"], "mode": "direct", "expose": ["echo"]},
    "searching": {"mode": "dynamic", "servers": ["two"]},
}


async def names_of(client: Client) -> list[str]:
    listed = [tool.name for tool in (await client.list_tools()).tools]
    return [name for name in listed if name != "read_result"]


@ERAS
@pytest.mark.requirement("VIEW-3", "MOD-36")
async def test_each_address_of_http_shows_its_view(home: Home, mode: str) -> None:
    home.write({"one": fault_entry(), "two": fault_entry()}, views=VIEWS)

    with home.http() as address, anyio.fail_after(60):
        async with (
            Client(address, mode=mode) as everything,
            Client(f"{address}/one", mode=mode) as one,
            Client(f"{address}/searching", mode=mode) as searching,
            Client(f"{address}/searching", mode=mode) as other,
        ):
            all_names, names = await names_of(everything), await names_of(one)
            called = await one.call_tool("one__echo", {"text": "hello"})
            with pytest.raises(MCPError):
                await one.call_tool("two__echo", {"text": "hello"})
            await searching.call_tool("search_tools", {"query": "echo"})
            found, others = await names_of(searching), await names_of(other)

    assert "search_tools" in all_names
    assert names == ["one__echo"]
    assert "hello" in called.content[0].text
    assert ("two__echo" in found) == (mode == "legacy")
    assert "two__echo" not in others
