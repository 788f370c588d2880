"""The engine beside version 1 of the MCP SDK, and without any."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from discovery_engine import Toolset, open_engine, stored_view
from tests.e2e.frameworks.programs.scenarios import World, run


async def tools_of_local_servers_are_found_and_called(world: World) -> None:
    async with world.open() as engine:
        tools = engine.toolset(mode="select")
        await tools.select("order a product from the warehouse")
        result = await tools.call_as_result("shop__place_order", {"product": "lamp"})

    assert version("mcp").startswith("1.")
    assert result["structuredContent"]["product"] == "lamp"
    assert "mcp" not in sys.modules


async def a_remote_server_says_what_it_needs_and_the_others_work(world: World) -> None:
    config = world.write(servers={"far": {"url": "http://127.0.0.1:9/mcp"}})
    async with engine_of(world, config) as tools:
        search = await tools.call_as_result("search_tools", {"query": "order a product"})
        call = {"server": "far", "tool": "anything"}
        refused = await tools.call_as_result("execute_tool", call)

    assert "shop:place_order" in search["content"][0]["text"]
    text = refused["content"][0]["text"]
    assert "remote servers need version 2 of the package `mcp`, and version 1." in text
    assert "pip install 'mcp>=2.3'" in text


async def without_the_sdk_the_remembered_catalog_is_searched_and_local_tools_called(
    world: World,
) -> None:
    for name in ("mcp", "mcp_types"):
        sys.modules[name] = None  # type: ignore[assignment] - as if it were not installed
    async with world.open() as engine:
        result = await engine.execute("shop", "place_order", {"product": "lamp"})
    view = stored_view(world.config, data_dir=world.folder / "data")

    assert not result.get("isError")
    assert view
    assert view.search("order a product").hits[0].entry.tool.name == "place_order"


@asynccontextmanager
async def engine_of(world: World, config: Path) -> AsyncIterator[Toolset]:
    async with open_engine(config, data_dir=world.folder / "data") as engine:
        report = await engine.refresh()
        assert [server for server, failure in report.servers if failure] == ["far"]
        yield engine.toolset()


if __name__ == "__main__":
    run(globals())
