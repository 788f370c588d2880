"""A server made with the SDK, over stdio, whose tools change when told to."""

from __future__ import annotations

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

BUS = InMemorySubscriptionBus()
TOOLS = ["grow"]


async def list_tools(ctx, params) -> types.ListToolsResult:
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in TOOLS]
    return types.ListToolsResult(tools=tools)


async def call_tool(ctx, params) -> types.CallToolResult:
    TOOLS.append(f"tool_{len(TOOLS)}")
    await BUS.publish(ToolsListChanged())
    return types.CallToolResult(content=[types.TextContent(text=str(len(TOOLS)))])


SERVER = Server(
    "sdk",
    version="1",
    instructions="made with the SDK",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_subscriptions_listen=ListenHandler(BUS),
)


async def serve_stdio() -> None:
    async with stdio_server() as (read, write):
        await SERVER.run(read, write, SERVER.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve_stdio)
