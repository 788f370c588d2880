"""The engine beside version 1 of the MCP SDK, which it does not use."""

from __future__ import annotations

import sys
from importlib.metadata import version

from discovery_engine import open_engine, stored_view
from tests.e2e.frameworks.programs.scenarios import World, run
from tests.servers.programs import http_server


async def without_an_sdk_tools_of_local_and_remote_servers_are_found_and_called(
    world: World,
) -> None:
    for name in ("mcp", "mcp_types"):
        sys.modules[name] = None  # type: ignore[assignment] - as if it were not installed
    with http_server("modern") as address:
        config = world.write(servers={"far": {"url": address}})
        async with open_engine(config, data_dir=world.folder / "data") as engine:
            report = await engine.refresh()
            near = await engine.execute("shop", "place_order", {"product": "lamp"})
            far = await engine.execute("far", "echo", {"text": "hi"})
    view = stored_view(config, data_dir=world.folder / "data")

    assert version("mcp").startswith("1.")  # which nothing here has imported
    assert [server for server, failure in report.servers if failure] == []
    assert not near.get("isError")
    assert "hi" in far["content"][0]["text"]
    assert view
    assert view.search("order a product").hits[0].entry.tool.name == "place_order"


if __name__ == "__main__":
    run(globals())
