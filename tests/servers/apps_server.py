"""A server with an MCP App, made with the SDK: `apps_server.py NAME`."""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from mcp.server.apps import Apps, ResourceCsp, client_supports_apps
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context

NAME = sys.argv[1]
URI = "ui://clock/app.html"
apps = Apps()


@apps.tool(resource_uri=URI, description="Shows the time as a clock")
def show_clock(ctx: Context) -> str:
    return "a clock" if client_supports_apps(ctx) else "12:00"


@apps.tool(resource_uri=URI, visibility=["app"], description="Shows the clock of another zone")
def set_zone(zone: str) -> str:
    return f"{NAME} {zone}"


apps.add_html_resource(
    URI,
    f"<h1>{NAME}</h1>",
    csp=ResourceCsp(connect_domains=["https://time.example"]),
)


class Maps(Extension):
    """An extension that nobody knows."""

    identifier = "com.example/maps"


server = MCPServer(NAME, extensions=[apps, Maps()])

if __name__ == "__main__":
    server.run("stdio")
