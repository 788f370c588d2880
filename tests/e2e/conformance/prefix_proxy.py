"""An HTTP proxy that hides the prefix of tool names: the official suite calls tools by bare names.

    python prefix_proxy.py URL PREFIX

It prints its port first. Requests are those since 2026-07-28, of which each has one answer.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

TARGET, PREFIX = sys.argv[1], sys.argv[2]
PASSED_ON = ("accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name")


async def forward(request: Request) -> Response:
    message = json.loads(await request.body())
    headers = {name: value for name, value in request.headers.items() if name in PASSED_ON}
    if message.get("method") == "tools/call":
        params = message["params"]
        if headers.get("mcp-name") == params["name"]:
            headers["mcp-name"] = PREFIX + params["name"]
        params["name"] = PREFIX + params["name"]
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.post(TARGET, json=message, headers=headers)
    body = answer.content
    if message.get("method") == "tools/list":
        body = json.dumps(without_prefix(answer.json())).encode()
    media_type = answer.headers.get("content-type")
    return Response(body, answer.status_code, media_type=media_type)


def without_prefix(listed: dict[str, Any]) -> dict[str, Any]:
    for tool in listed["result"]["tools"]:
        tool["name"] = tool["name"].removeprefix(PREFIX)
    return listed


if __name__ == "__main__":
    app = Starlette(routes=[Route("/mcp", forward, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
