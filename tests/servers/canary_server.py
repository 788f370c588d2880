"""An MCP server that prints what it was given, whole and in parts, wherever it can.

    python canary_server.py MODE [ARGUMENT...]

`crash` prints it to stderr and exits; `garbage` prints it to stdout; `serve` serves, with it in its
descriptions, its instructions and its errors; a number prints a port, and answers every
request with that status and all that came. Standard library only.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote


def spilled(values: Sequence[str]) -> list[str]:
    """Each value as programs print it."""
    return [form for value in values for form in forms(value)]


def forms(value: str) -> Iterator[str]:
    yield from (value, repr(value), json.dumps(value), quote(value), quote(value, safe=""))
    yield f"invalid token: {value[:24]}..."
    yield base64.b64encode(value.encode()).decode()
    for part in re.split(r"""["':@/=,;{}\s]+""", value):
        yield f"part <{part}>, short {part[:24]}..."
        yield base64.b64encode(f"user:{part}".encode()).decode() if len(part) > 16 else ""


def given() -> list[str]:
    environ = [value for name, value in os.environ.items() if name.startswith("CANARY_")]
    return [*environ, *sys.argv[2:]]


def serve() -> None:
    told = "\n".join(spilled(given()))
    print(told, file=sys.stderr, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked, told)}), flush=True)


def answer(asked: dict[str, Any], told: str) -> dict[str, Any]:
    match asked["method"], asked.get("params", {}).get("name"):
        case "initialize", _:
            described = {"name": "canary", "version": "1", "title": told}
            return {
                "result": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": described,
                    "instructions": f"Log in with {told}",
                }
            }
        case "tools/list", _:
            schema = {"type": "object", "properties": {"key": {"description": f"As {told}"}}}
            tools = [
                {"name": name, "description": f"Call with {told}", "inputSchema": schema}
                for name in ("fails", "dies")
            ]
            return {"result": {"tools": tools}}
        case "tools/call", "dies":
            print(told, file=sys.stderr, flush=True)
            sys.exit(f"cannot go on: {told}")
    return {"error": {"code": -32000, "message": f"refused: {told}", "data": told}}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        values = [value for name, value in self.headers.items() if name.startswith("X-Canary")]
        body = "\n".join(spilled([self.path, *values])).encode()
        self.send_response(int(sys.argv[1]))
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Echo", quote(values[0]) if values else "")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_DELETE = do_POST  # noqa: N815 - the names that the library asks for

    def log_message(self, *_: object) -> None:
        return


def main() -> None:
    match sys.argv[1]:
        case "crash":
            print("\n".join(spilled(given())), file=sys.stderr)
            sys.exit(3)
        case "garbage":
            print("\n".join(spilled(given())), flush=True)
            sys.exit(f"no: {given()}")
        case "serve":
            serve()
        case _:
            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            print(server.server_address[1], flush=True)
            server.serve_forever()


main()
