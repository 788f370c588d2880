"""MCP servers that answer as a test says: over HTTP in this process, or as a program."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.settings import ServerSettings
from tests.servers.programs import program

JSON = "application/json"
EVENTS = "text/event-stream"


class Asked(NamedTuple):
    """One HTTP request."""

    method: str
    path: str
    headers: dict[str, str]
    """By names in lower case."""
    message: JSONObject
    """What was posted; empty for another method."""

    @property
    def rpc_method(self) -> str:
        return str(self.message.get("method", ""))

    @property
    def version(self) -> str:
        """The protocol version that it names."""
        params = self.message.get("params") or {}
        if self.rpc_method == "initialize":
            return str(params["protocolVersion"])
        return self.headers.get("mcp-protocol-version", "")


class Reply(NamedTuple):
    status: int = 200
    body: JSONValue | bytes = b""
    """JSON, or the bytes as they are."""
    headers: dict[str, str | None] = {"content-type": JSON}  # noqa: RUF012 - never changed


Answer = Callable[[Asked], Reply | None]
"""Answers a request; None leaves it unanswered."""


def result_of(method: str, params: JSONObject, *, version: str = "2025-06-18") -> JSONValue:
    """What an ordinary server with the tool `echo` answers; None for an unknown method."""
    tool = {"name": "echo", "inputSchema": {"type": "object"}}
    arguments = json.dumps(params.get("arguments"))
    return {
        "initialize": {"protocolVersion": version, "capabilities": {"tools": {}}},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": arguments}]},
        "ping": {},
    }.get(method)


def usual(asked: Asked, *, version: str = "2025-06-18", session: str = "") -> Reply:
    """What an ordinary server of the handshake era answers; with a session if it is named."""
    if asked.method != "POST":
        return Reply(405 if asked.method == "GET" else 200)
    if "id" not in asked.message:
        return Reply(202)
    result = result_of(asked.rpc_method, asked.message.get("params") or {}, version=version)
    headers: dict[str, str | None] = {"content-type": JSON}
    if session and asked.rpc_method == "initialize":
        headers["mcp-session-id"] = session
    return Reply(200, reply_to(asked, result), headers)


def reply_to(asked: Asked, result: JSONValue) -> JSONObject:
    error = {"code": -32601, "message": "Method not found"}
    outcome = {"error": error} if result is None else {"result": result}
    return {"jsonrpc": "2.0", "id": asked.message.get("id"), **outcome}


def events(*data: JSONValue | bytes) -> Reply:
    """A stream of events that ends after them."""
    texts = (one if isinstance(one, bytes) else json.dumps(one).encode() for one in data)
    body = b"".join(b"event: message\ndata: " + text + b"\n\n" for text in texts)
    return Reply(200, body, {"content-type": EVENTS})


@contextmanager
def scripted_http(answer: Answer, sent: Callable[[Asked], None] = lambda _: None) -> Iterator[str]:
    """The address of a server; each of its paths may be another one to `answer`.

    `sent` is called when an answer was sent.
    """
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def handle_any(self) -> None:
            posted = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, json.loads(posted or b"{}"))
            if (reply := answer(asked)) is None:
                closing.wait()
                return
            body = reply.body
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            with suppress(OSError):  # whoever asked may be gone
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    if value is not None:
                        self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                sent(asked)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815 - as the base class has it

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            closing.set()
            server.shutdown()
            thread.join()


_PROGRAM = """
import json, sys
replies = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    wanted = replies.get(message.get("method"))
    reply = wanted.pop(0) if isinstance(wanted, list) else wanted
    if "id" in message and reply is not None:
        print(json.dumps(reply).replace('"ID"', json.dumps(message["id"])), flush=True)
"""


def scripted_program(**replies: JSONValue) -> ServerSettings:
    """A server that writes one line for each method (`tools_list`), a list in turn.

    In the lines `"ID"` is the id of the request. What is not named is answered as usual.
    """
    ordinary = {
        method: {"jsonrpc": "2.0", "id": "ID", "result": result_of(method, {})}
        for method in ("initialize", "tools/list", "tools/call")
    }
    unknown = {"jsonrpc": "2.0", "id": "ID", "error": {"code": -32601, "message": "no"}}
    named = {name.replace("_", "/", 1): reply for name, reply in replies.items()}
    lines = json.dumps({"server/discover": unknown, **ordinary, **named})
    return program(sys.executable, "-I", "-S", "-c", _PROGRAM, lines)
